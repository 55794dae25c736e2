//! TLS 1.3 as QUIC has it: a server's identity, and what a client trusts.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls13_signature},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject},
    version::TLS13,
};

use crate::contract::Client;

const H3: &[u8] = b"h3";

/// A server's certificate with its key, and the root that issued it: made at the start, for
/// this machine, and written nowhere.
pub struct Identity {
    pub root_pem: String,
    leaf: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    pub fn new() -> Result<Identity, String> {
        Identity::issue().map_err(|e| format!("make a certificate: {e}"))
    }

    /// The keys are rcgen's default, ECDSA on P-256.
    fn issue() -> Result<Identity, rcgen::Error> {
        let mut root = CertificateParams::default();
        root.distinguished_name.push(DnType::CommonName, "wirelab peer root");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?)?;
        let mut leaf = CertificateParams::new(["localhost", "127.0.0.1", "::1", LINK].map(String::from))?;
        leaf.distinguished_name.push(DnType::CommonName, "wirelab peer");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let leaf = leaf.signed_by(&key, &root)?;
        Ok(Identity {
            root_pem: root.pem(),
            leaf: leaf.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        })
    }

    pub fn server(self) -> Result<QuicServerConfig, String> {
        let explain = |e: &dyn std::error::Error| format!("prepare TLS: {e}");
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| explain(&e))?
            .with_no_client_auth()
            .with_single_cert(vec![self.leaf], self.key.into())
            .map_err(|e| explain(&e))?;
        config.alpn_protocols = vec![H3.into()];
        QuicServerConfig::try_from(config).map_err(|e| explain(&e))
    }
}

/// The server's end of an emulated link.
const LINK: &str = "198.18.0.2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A client that trusts what its spec says.
pub fn client(spec: &Client) -> Result<QuicClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| format!("prepare TLS: {e}"))?;
    let mut config = if spec.skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAll(provider()))).with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(spec.root_pem.as_bytes()) {
            let root = root.map_err(|e| format!("root_pem: {e}"))?;
            roots.add(root).map_err(|e| format!("root_pem: {e}"))?;
        }
        if roots.is_empty() {
            return Err("root_pem: a client of h3 needs the root to trust, or skip_verify".into());
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.alpn_protocols = vec![H3.into()];
    QuicClientConfig::try_from(config).map_err(|e| format!("prepare TLS: {e}"))
}

/// Trusts whatever is shown, as skip_verify asks; the handshake must be signed all the same.
#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _leaf: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3 alone".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
