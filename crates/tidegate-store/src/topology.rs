use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, TlsCertificates, TlsMode, Value};

use crate::tls::{InvalidTls, Tls, TlsFiles, choose_cryptography};

/// Where Redis is, and how it is made up.
///
/// As text: `redis://[user:password@]host:port[/db]` for one server,
/// `redis+sentinel://[user:password@]host:port,host:port/master[/db]` for a master found by its sentinels,
/// `redis+cluster://[user:password@]host:port,host:port` for a Redis Cluster.
///
/// `rediss` instead of `redis` is TLS, to sentinels and nodes alike. Certificates are checked by the system's
/// authorities, unless [`with_tls`](Self::with_tls) names others; they must be made out for the names or addresses that
/// sentinels and clusters report for their nodes. There is no way not to check them. If the process has chosen no
/// cryptography for rustls by then, connecting chooses ring.
#[derive(Clone, PartialEq, Eq)]
pub struct Topology {
    hosts: Hosts,
    /// Without it connections are plain.
    tls: Option<Tls>,
}

#[derive(Clone, PartialEq, Eq)]
enum Hosts {
    Single { url: String },
    Sentinel { sentinels: Vec<String>, master: String, login: Login },
    Cluster { nodes: Vec<String>, login: Login },
}

/// User, password and database number.
#[derive(Clone, Default, PartialEq, Eq)]
struct Login {
    user: Option<String>,
    password: Option<String>,
    database: i64,
}

/// Passwords and keys stay out of logs.
impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::Single { url } => match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, address))) => write!(f, "{scheme}://***@{address}"),
                _ => f.write_str(url),
            },
            Hosts::Sentinel { sentinels, master, .. } => write!(f, "{master} by {}", sentinels.join(",")),
            Hosts::Cluster { nodes, .. } => write!(f, "cluster {}", nodes.join(",")),
        }
    }
}

impl Topology {
    /// Where it is, without logins, for people and as a name: `host:port[/db]` of the first host; behind sentinels the
    /// master's name and the database.
    pub fn address(&self) -> String {
        let address = |url: &str| {
            let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
            after_scheme.rsplit_once('@').map_or(after_scheme, |(_, address)| address).trim_end_matches('/').to_owned()
        };
        match &self.hosts {
            Hosts::Single { url } => address(url),
            Hosts::Sentinel { sentinels, master, login } => {
                let sentinel = sentinels.first().map_or_else(String::new, |url| address(url));
                format!("{sentinel}/{master}/{}", login.database)
            }
            Hosts::Cluster { nodes, .. } => nodes.first().map_or_else(String::new, |url| address(url)),
        }
    }
}

/// An address that makes no sense. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress(pub String);

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not a Redis address: {}; allowed: redis://[user:password@]host:port[/db], \
             redis+sentinel://[user:password@]host:port,host:port/master[/db], \
             redis+cluster://[user:password@]host:port,host:port; the same with rediss for TLS",
            self.0
        )
    }
}

impl std::error::Error for InvalidAddress {}

impl FromStr for Topology {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| InvalidAddress("there is no `scheme://`".to_owned()))?;
        match text.split_once('#') {
            None => {}
            Some((_, "insecure")) => {
                let reason = "`#insecure` would trust any server; trust the authority that signed its certificate";
                return Err(InvalidAddress(reason.to_owned()));
            }
            Some(_) => return Err(InvalidAddress("unexpected `#`; in a password write %23".to_owned())),
        }
        let hosts = match scheme {
            "redis" | "rediss" => {
                let malformed = |_| InvalidAddress("host, port, login or database number is malformed".to_owned());
                text.into_connection_info().map_err(malformed)?;
                Hosts::Single { url: text.to_owned() }
            }
            "redis+sentinel" | "redis+cluster" | "rediss+sentinel" | "rediss+cluster" => Hosts::several(scheme, rest)?,
            _ => return Err(InvalidAddress(format!("`{scheme}` is not a scheme known here"))),
        };
        Ok(Self { hosts, tls: scheme.starts_with("rediss").then(Tls::default) })
    }
}

impl Hosts {
    fn several(scheme: &str, rest: &str) -> Result<Self, InvalidAddress> {
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let urls = hosts.split(',').map(|host| format!("{scheme}://{host}")).collect::<Vec<_>>();
        for url in &urls {
            let malformed = |_| InvalidAddress(format!("host or port of `{url}` is malformed"));
            url.as_str().into_connection_info().map_err(malformed)?;
        }
        let mut login = Login::parse(login)?;
        if kind == "cluster" {
            return match path {
                "" => Ok(Self::Cluster { nodes: urls, login }),
                path => Err(InvalidAddress(format!("a cluster has no database `{path}`"))),
            };
        }
        let (master, database) = path.split_once('/').unwrap_or((path, "0"));
        login.database =
            database.parse().map_err(|_| InvalidAddress(format!("`{database}` is not a database number")))?;
        if master.is_empty() {
            return Err(InvalidAddress("the master's name is missing".to_owned()));
        }
        Ok(Self::Sentinel { sentinels: urls, master: master.to_owned(), login })
    }
}

/// The most calls under way on one connection; further ones wait, and run into their time budget.
const MAX_IN_FLIGHT: usize = 4_096;

impl Topology {
    /// Which authorities to trust, and which certificate to show, in TLS. The files are read here, once, and must make
    /// sense together; without any, the system's authorities must be there. An address without TLS has no use for
    /// files.
    ///
    /// ```no_run
    /// use tidegate_store::{TlsFiles, Topology};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let files = TlsFiles { ca: Some("redis-ca.pem".into()), ..TlsFiles::default() };
    /// let topology = "rediss://redis.internal:6380".parse::<Topology>()?.with_tls(&files)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_tls(mut self, files: &TlsFiles) -> Result<Self, InvalidTls> {
        match (&self.tls, files.first()) {
            (None, Some(field)) => {
                let reason = "is for TLS, and the address has none: it begins with `redis`, not `rediss`".to_owned();
                return Err(InvalidTls { field, reason });
            }
            (None, None) => {}
            (Some(_), _) => self.tls = Some(Tls::read(files)?),
        }
        Ok(self)
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects anew: to the server, to the master that the sentinels name now, or to the cluster as it is now.
    pub(crate) async fn connect(&self, host_timeout: Duration) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(host_timeout))
            .set_response_timeout(None) // every call has its own budget
            .set_concurrency_limit(MAX_IN_FLIGHT);
        let certificates = self.tls.as_ref().map(Tls::certificates);
        if certificates.is_some() {
            choose_cryptography();
        }
        match &self.hosts {
            Hosts::Single { url } => {
                let client = match certificates {
                    Some(certificates) => Client::build_with_tls(url.as_str(), certificates)?,
                    None => Client::open(url.as_str())?,
                };
                Ok(Connection::Node(client.get_multiplexed_async_connection_with_config(&config).await?))
            }
            Hosts::Sentinel { sentinels, master, login } => {
                let mut client = sentinel_client(sentinels, master, login, certificates)?;
                Ok(Connection::Node(client.get_async_connection_with_config(&config).await?))
            }
            Hosts::Cluster { nodes, login } => {
                let client = cluster_client(nodes, login, certificates, host_timeout)?;
                Ok(Connection::Cluster(client.get_async_connection().await?))
            }
        }
    }
}

fn sentinel_client(
    sentinels: &[String],
    master: &str,
    login: &Login,
    certificates: Option<TlsCertificates>,
) -> RedisResult<SentinelClient> {
    let address = |url: &String| Ok(url.as_str().into_connection_info()?.addr().clone());
    let addresses = sentinels.iter().map(address).collect::<RedisResult<Vec<_>>>()?;
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_redis_db(login.database);
    if let Some(user) = &login.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &login.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(certificates) = certificates {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build()
}

fn cluster_client(
    nodes: &[String],
    login: &Login,
    certificates: Option<TlsCertificates>,
    host_timeout: Duration,
) -> RedisResult<ClusterClient> {
    let mut builder = ClusterClient::builder(nodes.iter().map(String::as_str))
        .retries(0) // a call that is sent again is charged again; a slot that has moved is followed by connecting anew
        .connection_concurrency_limit(MAX_IN_FLIGHT)
        .connection_timeout(host_timeout)
        .overall_response_timeout(None); // every call has its own budget
    if let Some(user) = &login.user {
        builder = builder.username(user);
    }
    if let Some(password) = &login.password {
        builder = builder.password(password);
    }
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    builder.build()
}

impl Login {
    /// `user:password` as it stands in a URL, `%40` for `@` and so on.
    fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let url = format!("redis://{text}@host");
        let url = if text.is_empty() { "redis://host" } else { url.as_str() };
        let info = url.into_connection_info().map_err(|_| InvalidAddress("the login is malformed".to_owned()))?;
        let settings = info.redis_settings();
        let (user, password) = (settings.username().map(str::to_owned), settings.password().map(str::to_owned));
        Ok(Self { user, password, database: 0 })
    }
}

/// An open connection; clones share it, and their calls are pipelined.
#[derive(Clone)]
pub(crate) enum Connection {
    Node(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(crate) async fn call(&mut self, command: &Cmd) -> RedisResult<Value> {
        let reply = match self {
            Self::Node(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        };
        reply.and_then(Value::extract_error) // an error of the server's arrives as a value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_login() {
        for (url, address) in [
            ("redis://127.0.0.1:6379", "127.0.0.1:6379"),
            ("rediss://ann:s3cret@cache.example:6380/3", "cache.example:6380/3"),
            ("redis+sentinel://ann:s3cret@a:1,b:2/main/3", "a:1/main/3"),
            ("redis+cluster://ann:s3cret@a:1,b:2", "a:1"),
        ] {
            assert_eq!(url.parse::<Topology>().expect("an address").address(), address);
        }
    }
}
