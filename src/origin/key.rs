//! What state is kept by.

use std::hash::{BuildHasher as _, RandomState};

use reqwest::Url;

/// An origin (RFC 6454: scheme, host, port), or what an application tells apart instead. Only its
/// hash, so that no name and no secret is kept. Two that share one share their state: one pair in 2^64,
/// and which ones nobody can foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64);

/// Makes keys.
#[derive(Clone, Default)]
pub(super) struct Keys(RandomState);

impl Keys {
    pub(super) fn of_origin(&self, url: &Url) -> Key {
        let port = url.port_or_known_default();
        Key(self.0.hash_one((url.scheme(), url.host_str(), port)))
    }

    pub(super) fn of(&self, name: &str) -> Key {
        Key(self.0.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    fn key(keys: &Keys, url: &str) -> Key {
        keys.of_origin(&Url::parse(url).unwrap())
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let keys = Keys::default();
        let origin = key(&keys, "http://api.test/");
        for same in ["http://api.test:80/other?q#f", "HTTP://API.test", "http://user:pw@api.test/"]
        {
            assert_eq!(key(&keys, same), origin, "{same}");
        }
        for other in [
            "https://api.test/",
            "https://api.test:80/",
            "http://api.test:8080/",
            "http://b.api.test/",
            "http://api.test./",
        ] {
            assert_ne!(key(&keys, other), origin, "{other}");
        }
    }
}
