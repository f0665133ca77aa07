//! Certificates made for the test, and the TLS of its servers.

use std::sync::{Arc, LazyLock};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, crypto};
use tokio_rustls::TlsAcceptor;

use crate::servers::Protocol;

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// The one that the servers' certificates come from, and that clients trust.
pub(crate) static OURS: LazyLock<Authority> = LazyLock::new(|| Authority::new("ours"));
/// One that knows none of the servers.
pub(crate) static STRANGER: LazyLock<Authority> = LazyLock::new(|| Authority::new("a stranger"));

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// For a client that trusts it.
    pub(crate) fn trusted(&self) -> reqwest::Certificate {
        reqwest::Certificate::from_der(&self.certificate).unwrap()
    }
}

/// The TLS of a server.
pub(crate) struct Tls {
    name: &'static str,
    expired: bool,
    asks_for_a_certificate: bool,
    versions: Vec<&'static SupportedProtocolVersion>,
    alpn: &'static [u8],
}

impl Default for Tls {
    /// TLS as it should be, for HTTP/1.1.
    fn default() -> Self {
        Self {
            name: "127.0.0.1",
            expired: false,
            asks_for_a_certificate: false,
            versions: rustls::DEFAULT_VERSIONS.to_vec(),
            alpn: b"http/1.1",
        }
    }
}

impl Tls {
    pub(crate) fn for_name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(crate) fn expired(self) -> Self {
        Self { expired: true, ..self }
    }

    pub(crate) fn asking_for_a_certificate(self) -> Self {
        Self { asks_for_a_certificate: true, ..self }
    }

    pub(crate) fn only_1_2(self) -> Self {
        Self { versions: vec![&rustls::version::TLS12], ..self }
    }

    pub(crate) fn only_1_3(self) -> Self {
        Self { versions: vec![&rustls::version::TLS13], ..self }
    }

    pub(crate) fn for_http2(self) -> Self {
        Self { alpn: b"h2", ..self }
    }

    pub(crate) fn protocol(self) -> Protocol {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([self.name.to_owned()]).unwrap();
        if self.expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let certificate = params.signed_by(&key, &OURS.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());

        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.versions)
            .unwrap();
        let config = if self.asks_for_a_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(OURS.certificate.clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        } else {
            config.with_no_client_auth()
        };
        let mut config = config.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![self.alpn.to_vec()];
        Protocol::Tls(TlsAcceptor::from(Arc::new(config)))
    }
}
