//! Real faults on the wire: what is read from them, what is sent again, what reaches the server and
//! what comes back. One row a fault; each row with a GET, a POST, a POST with an honoured key and a
//! POST of a stream, with the delivery proof.
//!
//! One behaviour of a server can show in several ways, by timing: a row accepts the set. What never
//! varies is safety: no POST reaches a server twice, unless it proved that it did not act.

#![cfg(all(feature = "http2", feature = "rustls"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod answers;
mod bodies;
mod certificates;
mod chains;
mod connecting;
mod connection;
mod documented;
mod expect;
mod frames;
#[path = "../support/held_clock.rs"]
mod held_clock;
mod http2;
mod requests;
mod rewriting;
mod scene;
mod servers;
mod silence;
mod table;
mod tls;
mod versions;

use std::collections::BTreeSet;

use table::check;

fn every_row() -> Vec<table::Row> {
    let tables = [
        connecting::rows(),
        answers::lost(),
        answers::broken(),
        answers::early(),
        requests::uploads(),
        requests::redirects(),
        requests::unseen_exchanges(),
        requests::proxies(),
        tls::verdicts(),
        tls::late_verdicts(),
        tls::losses(),
        http2::resets(),
        http2::going_away(),
        http2::broken(),
        bodies::rows(),
        silence::rows(),
        #[cfg(target_os = "linux")]
        connecting::connect_timeout_rows(),
    ];
    tables.into_iter().flatten().collect()
}

#[tokio::test]
async fn every_fault_has_a_row_of_its_own() {
    let rows = every_row();
    let labels = rows.iter().map(table::Row::label).collect::<BTreeSet<_>>();
    assert_eq!(labels.len(), rows.len());
    assert!(rows.len() >= 100, "only {}", rows.len());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_documentation_knows_every_fault() {
    documented::check(&every_row());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_not_sent_is_sent_again() {
    check(connecting::rows()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connect_timeout_proves_that_nothing_was_sent() {
    check(connecting::connect_timeout_rows()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_proves_nothing() {
    check(answers::lost()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_answer_proves_nothing() {
    check(answers::broken()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_answer_proves_nothing() {
    check(answers::early()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_by_itself_is_not_sent_again() {
    check(requests::uploads()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_takes_the_proof_away() {
    check(requests::redirects()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_nobody_saw_takes_the_proof_away() {
    check(requests::unseen_exchanges()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_proxy_declined_was_not_sent() {
    check(requests::proxies()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_of_tls_is_final() {
    check(tls::verdicts()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_verdict_of_tls_comes_before_any_request_is_read() {
    check(tls::late_verdicts()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_below_tls_is_tried_again() {
    check(tls::losses()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_resets_only_a_refused_stream_is_a_proof() {
    check(http2::resets()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_proves_nothing() {
    check(http2::going_away()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_http2_connection_proves_nothing_once_it_was_used() {
    check(http2::broken()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_whose_body_is_cut_is_not_asked_for_again() {
    check(bodies::rows()).await;
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_limit_and_proves_nothing() {
    silence::check().await;
}
