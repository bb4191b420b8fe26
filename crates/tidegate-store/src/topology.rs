use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisConnectionInfo, RedisResult, Value};

/// Where Redis is, and how it is made up.
///
/// As text: `redis://[user:password@]host:port[/db]` for one server, `redis+sentinel://[user:password@]host:port,host:port/master[/db]`
/// for a master found by its sentinels, `redis+cluster://[user:password@]host:port,host:port` for a Redis Cluster. TLS is not supported yet.
#[derive(Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single {
        /// Its address.
        url: String,
    },
    /// A master with replicas, watched by sentinels.
    Sentinel {
        /// The sentinels' addresses.
        sentinels: Vec<String>,
        /// The name by which they know the master.
        master: String,
        /// How to log in to the master, and its database number.
        login: Login,
    },
    /// A Redis Cluster.
    Cluster {
        /// Some of its nodes.
        nodes: Vec<String>,
        /// How to log in.
        login: Login,
    },
}

/// User, password and database number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    password: Option<String>,
    database: i64,
}

/// Passwords stay out of logs.
impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single { url } => match url.rsplit_once('@') {
                Some((_, address)) => write!(f, "redis://***@{address}"),
                None => f.write_str(url),
            },
            Self::Sentinel { sentinels, master, .. } => write!(f, "{master} by {}", sentinels.join(",")),
            Self::Cluster { nodes, .. } => write!(f, "cluster {}", nodes.join(",")),
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
             redis+cluster://[user:password@]host:port,host:port",
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
        if scheme == "redis" {
            let malformed = |_| InvalidAddress("host, port, login or database number is malformed".to_owned());
            text.into_connection_info().map_err(malformed)?;
            return Ok(Self::Single { url: text.to_owned() });
        }
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let urls = hosts.split(',').map(|host| format!("redis://{host}")).collect::<Vec<_>>();
        for url in &urls {
            let malformed = |_| InvalidAddress(format!("host or port of `{url}` is malformed"));
            url.as_str().into_connection_info().map_err(malformed)?;
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut login = Login::parse(login)?;
        match scheme {
            "redis+cluster" if path.is_empty() => Ok(Self::Cluster { nodes: urls, login }),
            "redis+cluster" => Err(InvalidAddress(format!("a cluster has no database `{path}`"))),
            "redis+sentinel" => {
                let (master, database) = path.split_once('/').unwrap_or((path, "0"));
                login.database =
                    database.parse().map_err(|_| InvalidAddress(format!("`{database}` is not a database number")))?;
                let master = some(master).ok_or_else(|| InvalidAddress("the master's name is missing".to_owned()))?;
                Ok(Self::Sentinel { sentinels: urls, master, login })
            }
            "rediss" => Err(InvalidAddress("TLS (`rediss`) is not supported yet".to_owned())),
            _ => Err(InvalidAddress(format!("`{scheme}` is not a scheme known here"))),
        }
    }
}

/// The most calls under way on one connection; further ones wait, and run into their time budget.
const MAX_IN_FLIGHT: usize = 4_096;

impl Topology {
    /// Connects anew: to the server, to the master that the sentinels name now, or to the cluster as it is now.
    pub(crate) async fn connect(&self, patience: Duration) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            .set_response_timeout(None) // every call has its own budget
            .set_concurrency_limit(MAX_IN_FLIGHT);
        match self {
            Self::Single { url } => {
                let client = Client::open(url.as_str())?;
                Ok(Connection::Node(client.get_multiplexed_async_connection_with_config(&config).await?))
            }
            Self::Sentinel { sentinels, master, login } => {
                let node = SentinelNodeConnectionInfo::default().set_redis_connection_info(login.info());
                let urls = sentinels.iter().map(String::as_str).collect();
                let mut client = SentinelClient::build(urls, master.clone(), Some(node), SentinelServerType::Master)?;
                Ok(Connection::Node(client.get_async_connection_with_config(&config).await?))
            }
            Self::Cluster { nodes, login } => {
                let mut builder = ClusterClient::builder(nodes.iter().map(String::as_str))
                    .retries(0) // a call that is sent again is charged again; a slot that has moved is followed by connecting anew
                    .connection_concurrency_limit(MAX_IN_FLIGHT)
                    .connection_timeout(patience)
                    .overall_response_timeout(None); // every call has its own budget
                if let Some(user) = &login.user {
                    builder = builder.username(user);
                }
                if let Some(password) = &login.password {
                    builder = builder.password(password);
                }
                Ok(Connection::Cluster(builder.build()?.get_async_connection().await?))
            }
        }
    }
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

    fn info(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
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
        let answer = match self {
            Self::Node(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        };
        answer.and_then(Value::extract_error) // an error of the server's arrives as a value
    }
}
