//! Authentication: keys and certificates in files, tokens, and the certificates that TLS trusts.
//!
//! Each side trusts exactly the certificates whose fingerprints it knows, while they are valid. No certificate authority is
//! involved.
//!
//! `docs/collect.md` describes it (who is let in).

use crate::certificate::{self, Validity};
use crate::message::{Proof, SECRET_BYTES};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error as TlsError,
    ServerConfig, SignatureScheme,
};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// Prefix of a token's text.
const TOKEN_MARK: &str = "quipu-token-1";

/// Maximum size of a key, certificate or token file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Computes the fingerprint of a certificate.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Fingerprint(bytes)
    }

    /// Parses a fingerprint in its printed form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Fingerprint> {
        URL_SAFE_NO_PAD.decode(text.trim()).ok()?.try_into().ok().map(Fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a sender needs to identify the collector and to be admitted.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Fingerprint of the collector's certificate.
    pub fingerprint: Fingerprint,
    /// Secret that admits a sender.
    pub secret: [u8; SECRET_BYTES],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Token {
    /// Parses the text of a token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Token> {
        let mut parts = text.trim().split(':');
        let (mark, fingerprint, secret) = (parts.next()?, parts.next()?, parts.next()?);
        if mark != TOKEN_MARK || parts.next().is_some() {
            return None;
        }
        let secret = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
        Some(Token { fingerprint: Fingerprint::parse(fingerprint)?, secret })
    }

    /// Formats the token as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{TOKEN_MARK}:{}:{}", self.fingerprint, URL_SAFE_NO_PAD.encode(self.secret))
    }

    /// Reads a token file.
    ///
    /// # Errors
    /// If the file cannot be read or contains no token.
    pub fn read(path: &Path) -> io::Result<Token> {
        let wrong = || wrong(path, "no token: `quipu collect --new-token` makes one");
        Token::parse(std::str::from_utf8(&read(path)?).map_err(|_| wrong())?).ok_or_else(wrong)
    }
}

/// Compares a sender's proof with the secret of a token in constant time.
#[derive(Debug)]
pub struct Guard {
    known: Box<(hmac::Key, hmac::Tag)>,
}

impl Guard {
    /// Creates a guard that admits senders with this token.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub fn new(token: &Token) -> io::Result<Guard> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        let tag = hmac::sign(&key, &token.secret);
        Ok(Guard { known: Box::new((key, tag)) })
    }

    /// Whether a proof contains the secret.
    #[must_use]
    pub fn lets_in(&self, proof: &Proof) -> bool {
        match proof {
            Proof::Token(secret) => {
                let (key, tag) = &*self.known;
                hmac::verify(key, secret, tag.as_ref()).is_ok()
            }
            Proof::None => false,
        }
    }
}

/// A key and its certificate.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.fingerprint()).finish()
    }
}

impl Identity {
    /// Reads a key file, which also contains the certificate.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks the key or the certificate.
    pub fn read(path: &Path) -> io::Result<Identity> {
        let bytes = read(path)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| wrong(path, "no private key"))?;
        Ok(Identity { certificate: certificate_of(&bytes, path)?, key })
    }

    /// The fingerprint of the certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }
}

/// Reads a certificate file.
///
/// # Errors
/// If the file cannot be read or contains no certificate.
pub fn read_certificate(path: &Path) -> io::Result<CertificateDer<'static>> {
    certificate_of(&read(path)?, path)
}

fn certificate_of(bytes: &[u8], path: &Path) -> io::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(bytes).map_err(|_| wrong(path, "no certificate"))
}

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} has {what}", path.display()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(named)?;
    io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE_BYTES), &mut bytes).map_err(named)?;
    Ok(bytes)
}

/// The path of the key that belongs to a token or certificate: beside it, with `.key` appended.
#[must_use]
pub fn key_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".key");
    name.into()
}

/// Creates key, certificate and token of a collector: the token at `path`, for the collector and its senders; key and
/// certificate at `path` with `.key` appended, for the collector only.
///
/// # Errors
/// If a file exists or cannot be written.
pub fn new_token(path: &Path) -> io::Result<Token> {
    let made = certificate::make("quipu collector", Validity::ten_years())?;
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let token = Token { fingerprint: Fingerprint::of(&made.certificate), secret };
    write(path, 0o600, &format!("{}\n", token.to_text()))?;
    write_key(path, &made).inspect_err(|_| drop(std::fs::remove_file(path)))?;
    Ok(token)
}

/// Creates key and certificate of a sender: the certificate at `path`, for the collector; key and certificate at `path` with
/// `.key` appended, for the sender only.
///
/// # Errors
/// If a file exists or cannot be written.
pub fn new_certificate(path: &Path) -> io::Result<Fingerprint> {
    let made = certificate::make("quipu sender", Validity::ten_years())?;
    write(path, 0o644, &pem("CERTIFICATE", &made.certificate))?;
    write_key(path, &made).inspect_err(|_| drop(std::fs::remove_file(path)))?;
    Ok(Fingerprint::of(&made.certificate))
}

/// Writes key and certificate to the key file beside `path`.
///
/// # Errors
/// If the file exists or cannot be written.
pub fn write_key(path: &Path, made: &certificate::Made) -> io::Result<()> {
    let both = pem("PRIVATE KEY", &made.key) + &pem("CERTIFICATE", &made.certificate);
    write(&key_path(path), 0o600, &both)
}

fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(named)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(named)
}

fn pem(what: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {what}-----\n");
    let body = STANDARD.encode(der);
    for line in body.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text + &format!("-----END {what}-----\n")
}

/// The cryptography provider, with the fastest cipher suite first.
fn crypto() -> Arc<CryptoProvider> {
    let suites = &provider::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let mut all = provider::default_provider();
    all.cipher_suites.sort_by_key(|suite| suite != suites);
    Arc::new(all)
}

/// Trusts valid certificates with known fingerprints.
#[derive(Debug)]
struct Pinned {
    known: Vec<Fingerprint>,
    usage: KeyUsage,
    crypto: Arc<CryptoProvider>,
}

impl Pinned {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), TlsError> {
        let is_known = self.known.contains(&Fingerprint::of(certificate));
        if !is_known || !others.is_empty() {
            return Err(CertificateError::UnknownIssuer.into());
        }
        // The certificate is its own trust anchor, so this only checks that it is well formed and currently valid.
        let wrong = |error| match error {
            webpki::Error::CertExpired { .. } => CertificateError::Expired,
            webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
            _ => CertificateError::BadEncoding,
        };
        let anchor = anchor_from_trusted_cert(certificate).map_err(wrong)?;
        let entity = EndEntityCert::try_from(certificate).map_err(wrong)?;
        let algorithms = self.crypto.signature_verification_algorithms.all;
        entity
            .verify_for_usage(algorithms, &[anchor], &[], now, self.usage, None, None)
            .map(drop)
            .map_err(wrong)?;
        Ok(())
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.crypto.signature_verification_algorithms)
    }
}

/// Rejects TLS 1.2.
fn never() -> Result<HandshakeSignatureValid, TlsError> {
    Err(TlsError::General("TLS 1.2 is not spoken".to_owned()))
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        self.check(certificate, others, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        never()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        self.check(certificate, others, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        never()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS configuration of a collector. With `accepted`, senders must present one of these certificates.
///
/// # Errors
/// If the key does not belong to the certificate, or has an unknown type.
pub fn server(identity: &Identity, accepted: &[CertificateDer<'_>]) -> io::Result<Arc<ServerConfig>> {
    let crypto = crypto();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&crypto))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?;
    let builder = if accepted.is_empty() {
        builder.with_no_client_auth()
    } else {
        let known = accepted.iter().map(|certificate| Fingerprint::of(certificate)).collect();
        builder.with_client_cert_verifier(Arc::new(Pinned { known, usage: KeyUsage::client_auth(), crypto }))
    };
    let mut config = builder
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .map_err(io::Error::other)?;
    // Without tickets, each connection authenticates anew.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// TLS configuration of a sender, for the collector with this certificate.
///
/// # Errors
/// If the key does not belong to the certificate, or has an unknown type.
pub fn client(collector: Fingerprint, identity: Option<&Identity>) -> io::Result<Arc<ClientConfig>> {
    let crypto = crypto();
    let known = vec![collector];
    let verifier = Pinned { known, usage: KeyUsage::server_auth(), crypto: Arc::clone(&crypto) };
    let builder = ClientConfig::builder_with_provider(crypto)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder
            .with_client_auth_cert(vec![identity.certificate.clone()], identity.key.clone_key())
            .map_err(io::Error::other)?,
    };
    Ok(Arc::new(config))
}
