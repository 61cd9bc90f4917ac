//! Encryption of clients' connections with TLS 1.2 and 1.3, by rustls, which is given bytes and gives bytes: they travel
//! through the shard's own operations.
//!
//! A shard has one [`Acceptor`]. Its certificate may be replaced while it serves: connections that are open keep what
//! they began with. Files that cannot be used leave the ones in use.

mod certificate;
mod identity;
mod options;
mod stream;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use query::Node;
use reactor::net::Connection;
use reactor::{Group, fs, time};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};

pub(crate) use certificate::{CertificateNames, names_of};
pub(crate) use identity::Identities;
pub use identity::QueriesError;
pub(crate) use options::ClientEncryption;
pub use options::OptionsError;
pub(crate) use stream::TlsStream;

/// A handshake takes two round trips and some computing; who takes longer is not a client.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How often files are looked at: three small reads. An operator who cannot wait asks over the admin API.
const LOOK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Queries(#[from] QueriesError),
    #[error("{what} {path} of client_encryption_options: {cause}")]
    File { what: &'static str, path: String, cause: String },
    #[error("the certificate and the key of client_encryption_options do not make a server: {0}")]
    Config(String),
}

/// rustls asks for the time to judge clients' certificates.
#[derive(Debug)]
struct ShardClock;

impl TimeProvider for ShardClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_micros(reactor::wall_us())))
    }
}

/// What the files held.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    truststore: Option<Vec<u8>>,
}

impl Files {
    async fn read(options: &ClientEncryption) -> Result<Files, TlsError> {
        let truststore = match &options.truststore {
            Some(path) => Some(read("the truststore", path).await?),
            None => None,
        };
        Ok(Files {
            certificate: read("the certificate", &options.certificate).await?,
            key: read("the keyfile", &options.keyfile).await?,
            truststore,
        })
    }

    fn config(&self, options: &ClientEncryption) -> Result<ServerConfig, TlsError> {
        let in_file = |what, path: &str, cause: &dyn std::fmt::Display| TlsError::File {
            what,
            path: path.to_string(),
            cause: cause.to_string(),
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|cause| in_file("the certificate", &options.certificate, &cause))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|cause| in_file("the keyfile", &options.keyfile, &cause))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_details(provider.clone(), Arc::new(ShardClock))
            .with_safe_default_protocol_versions()
            .map_err(|cause| TlsError::Config(cause.to_string()))?;
        let builder = match &self.truststore {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let path = options.truststore.as_deref().unwrap_or_default();
                let mut roots = RootCertStore::empty();
                for root in CertificateDer::pem_slice_iter(pem) {
                    let root = root.map_err(|cause| in_file("the truststore", path, &cause))?;
                    roots.add(root).map_err(|cause| in_file("the truststore", path, &cause))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match options.require_client_auth {
                    true => verifier,
                    false => verifier.allow_unauthenticated(),
                };
                let verifier = verifier.build().map_err(|cause| in_file("the truststore", path, &cause))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|cause| TlsError::Config(cause.to_string()))?;
        // A session would be resumed on the shard that keeps it, and clients come back on any.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

async fn read(what: &'static str, path: &str) -> Result<Vec<u8>, TlsError> {
    fs::read(path).await.map_err(|cause| TlsError::File { what, path: path.into(), cause: cause.to_string() })
}

/// One shard's side of handshakes.
pub(crate) struct Acceptor {
    options: ClientEncryption,
    files: RefCell<Files>,
    config: RefCell<Arc<ServerConfig>>,
}

impl Acceptor {
    pub async fn new(options: ClientEncryption) -> Result<Rc<Self>, TlsError> {
        let files = Files::read(&options).await?;
        let config = RefCell::new(Arc::new(files.config(&options)?));
        Ok(Rc::new(Self { options, files: RefCell::new(files), config }))
    }

    /// The connection, encrypted; an error when its client cannot or does not, in time.
    pub async fn accept(&self, connection: Connection) -> std::io::Result<Rc<TlsStream>> {
        let config = self.config.borrow().clone();
        let stream = Rc::new(TlsStream::new(connection, config)?);
        match time::timeout(HANDSHAKE_MAX, stream.handshake()).await {
            Ok(done) => done.map(|()| stream),
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    /// Takes the files as they are now, if they differ and can be used. Gives whether they differed.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        let files = Files::read(&self.options).await?;
        if files == *self.files.borrow() {
            return Ok(false);
        }
        let config = files.config(&self.options)?;
        *self.config.borrow_mut() = Arc::new(config);
        *self.files.borrow_mut() = files;
        Ok(true)
    }
}

/// [`Acceptor::reload`] on every shard of the node.
pub(crate) async fn reload(node: &Rc<Node>) -> Result<bool, String> {
    let each = |_: Rc<Node>| async move {
        match reactor::local::<Acceptor>() {
            Some(acceptor) => acceptor.reload().await.map_err(|error| error.to_string()),
            None => Err("connections of clients are not encrypted: see client_encryption_options".to_string()),
        }
    };
    let answers = node.on_every_shard("reload-certificates", each).await.map_err(|error| error.to_string())?;
    answers.into_iter().try_fold(false, |any, one| one.map(|changed| any | changed))
}

/// Reloads what changes, until the node is gone. On one shard.
pub(crate) fn watch(node: &Rc<Node>) {
    let node = Rc::downgrade(node);
    drop(reactor::spawn(Group::Maintenance, "certificates", async move {
        let mut failed = String::new();
        loop {
            time::sleep(LOOK_EVERY).await;
            let Some(node) = node.upgrade() else { return };
            match reload(&node).await {
                Ok(true) => tracing::info!("new certificates for connections of clients"),
                Ok(false) => failed.clear(),
                // Once, not at every look.
                Err(error) if error != failed => {
                    tracing::warn!(error, "certificates could not be reloaded; the ones in use stay");
                    failed = error;
                }
                Err(_) => {}
            }
        }
    }));
}
