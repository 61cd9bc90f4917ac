//! Clients over TLS: those that are trusted are served, those that are not or do not speak it are refused and cost
//! nothing. The checks are in `tls.py`, which finds the certificates in the folder that it runs in.

use std::path::Path;

use orrery_tests::node::{Node, Server, Settings, Site};
use orrery_tests::python::{self, Driver};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, KeyPair};

/// Who signs.
struct Authority {
    certificate: Certificate,
    key: KeyPair,
}

fn parameters(name: &str, addresses: &[String]) -> CertificateParams {
    let mut parameters = CertificateParams::new(addresses).expect("names are valid");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut parameters = parameters(name, &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is entropy");
        Authority { certificate: parameters.self_signed(&key).expect("the parameters are valid"), key }
    }

    /// Writes `file`.pem and `file`.key for `name`.
    fn sign(&self, folder: &Path, file: &str, name: &str, addresses: &[String]) {
        let key = KeyPair::generate().expect("there is entropy");
        let parameters = parameters(name, addresses);
        let certificate = parameters.signed_by(&key, &self.certificate, &self.key).expect("the parameters are valid");
        write(folder, &format!("{file}.pem"), &certificate.pem());
        write(folder, &format!("{file}.key"), &key.serialize_pem());
    }
}

fn write(folder: &Path, file: &str, text: &str) {
    std::fs::write(folder.join(file), text).expect("the folder is ours");
}

/// The certificates of a node and of its clients, by a common authority and by one that nobody trusts.
fn certificates(site: &Site) {
    let folder = site.folder();
    let (authority, stranger) = (Authority::new("ours"), Authority::new("theirs"));
    let addresses = [site.address(1).to_string()];
    write(folder, "ca.pem", &authority.certificate.pem());
    authority.sign(folder, "server", "server", &addresses);
    authority.sign(folder, "renewed", "server", &addresses);
    for name in ["cassandra", "bob", "nobody"] {
        authority.sign(folder, name, name, &[]);
    }
    stranger.sign(folder, "stranger", "bob", &[]);
}

fn encrypted(site: &Site) -> Node {
    certificates(site);
    let mut node = site.node(1, 1, Settings::default());
    let file = |name: &str| site.folder().join(name).to_string_lossy().into_owned();
    for (flag, name) in [("--tls-certificate", "server.pem"), ("--tls-key", "server.key")] {
        node.arguments.extend([flag.to_string(), file(name)]);
    }
    node
}

fn check(class: &str, site: &Site, node: &Node) {
    let _server = Server::start_node(node);
    let host = node.address.to_string();
    let mut command = python::command(Driver::Cassandra, "tls.py", &[&host, "9042", class]);
    let output = command.current_dir(site.folder()).output().expect("the environment's python starts");
    assert!(output.status.success(), "{class} failed\n{}", python::both(&output));
}

#[test]
fn encrypted_connections() {
    let site = Site::new();
    let node = encrypted(&site);
    check("Encrypted", &site, &node);
}

/// The encrypted port beside the plain one; clients are who their certificates say.
#[test]
fn certified_clients() {
    let site = Site::new();
    let mut node = encrypted(&site);
    let truststore = site.folder().join("ca.pem").to_string_lossy().into_owned();
    write(
        site.folder(),
        "orrery.yaml",
        "auth_certificate_role_queries:\n  - {source: SUBJECT, query: 'CN=([^,\\s]+)'}\n\
         authenticator: com.scylladb.auth.CertificateAuthenticator\nauthorizer: CassandraAuthorizer\n",
    );
    let config = site.folder().join("orrery.yaml").to_string_lossy().into_owned();
    let further =
        ["--tls-truststore", &truststore, "--tls-require-client-auth", "--tls-port", "9142", "--config", &config];
    node.arguments.extend(further.map(String::from));
    check("Certified", &site, &node);
}
