//! What a client is explained as.

use reqwest_typed_retry::{
    Cooldown, DeliveryProof, DrainLimits, Endpoint, RetryBudget, RetryMiddleware, RetryPolicy,
    RetrySettings,
};

use crate::{WIDTH, check_kept, field, secs};

/// Two: the annotated settings, and one with all that only code can say.
#[test]
fn the_explanations_of_clients_are_those_that_are_kept() {
    let settings: RetrySettings =
        toml::from_str(include_str!("../../examples/retry.toml")).unwrap();
    let of_settings = RetryMiddleware::from_settings(&settings).unwrap();

    let (_, proof) = DeliveryProof::build(reqwest::Client::builder()).unwrap();
    let once = RetryPolicy::never().to_builder().deadline(secs(30)).build().unwrap();
    let mut code = RetryMiddleware::builder(once)
        .delivery_proof(proof)
        .without_budget()
        .cooldown(Cooldown::by_key(|_| None))
        .drain(DrainLimits::none())
        .buffer_body(1 << 20)
        .wrap_errors()
        .attempt_header(field("x-attempt"));
    let many = (0..30).fold(Endpoint::named("many hosts"), |endpoint, at| {
        endpoint.host(format!("*.host-number-{at}.example.com:8443"))
    });
    for endpoint in [
        many.when(|_| true).drain(DrainLimits::new(1, secs(1))).build().unwrap(),
        Endpoint::named("unread").path("/").buffer_body(0).build().unwrap(),
    ] {
        code = code.endpoint(endpoint);
    }
    for (name, retry) in [("client", of_settings), ("client_in_code", code.build().unwrap())] {
        let explanation = retry.explain();
        let plain = explanation.to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH), "{plain}");
        check_kept(name, &plain, &format!("{explanation:#}"));
    }
}

#[test]
fn the_capacity_of_the_budget_is_said() {
    let budget = RetryBudget::builder().capacity(7).build().unwrap();
    let retry = RetryMiddleware::builder(RetryPolicy::default()).budget(budget).build().unwrap();
    assert!(retry.explain().to_string().contains(" 7 resends to an origin"));
}
