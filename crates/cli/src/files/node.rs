//! This node's endpoint for files, and the address of another node's.

use crate::discover::{ethertype, if_there, only_one_up};
use clap::Args;
use gigae::{Address, Cluster, Endpoint, Envelope, Options, Sharing};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

/// Files have a channel of their own, so that they meet no other endpoint of a node.
const CHANNEL: u8 = 21;

/// Port id of `gigae share`. In the UDP envelope it stands for the UDP port 21 beyond that of the
/// node's other endpoints.
const PORT: u16 = (1 << 15) + 21;

/// Port id of `gigae cp` in the UDP envelope, if that UDP port is free.
const CLIENT_PORT: u16 = PORT + 1;

/// How this node reaches others.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArgs {
    /// The interface to use, or a comma-separated list of interfaces that are used as one [default:
    /// this node's in the cluster file, else the only one that is up]
    #[arg(long, value_name = "IFACE[,IFACE...]")]
    interface: Option<String>,
    /// Cluster file with the names of nodes, the interface and the envelope [default:
    /// $GIGAE_CLUSTER, else /etc/gigae/cluster.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// EtherType of the frames, the same on all nodes [default: the cluster file's, else 0x88b5]
    #[arg(long, value_name = "NUMBER", value_parser = ethertype, conflicts_with = "udp")]
    ethertype: Option<u16>,
    /// Send UDP datagrams instead, to this port and the ones behind it. Needs no privilege
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    udp: Option<u16>,
}

/// What the arguments and the cluster file say.
pub(crate) struct Site {
    cluster: Option<Cluster>,
    options: Options,
    envelope: Envelope,
}

impl NodeArgs {
    pub(crate) fn site(&self) -> Result<Site, String> {
        let cluster = match &self.cluster {
            Some(file) => Some(Cluster::read(file).map_err(|error| error.to_string())?),
            None => if_there(Cluster::load()).map_err(|error| error.to_string())?,
        };
        let envelope = match (self.udp, self.ethertype, &cluster) {
            (Some(port), ..) => Envelope::Udp { port },
            (_, Some(ethertype), _) => Envelope::Ethernet { ethertype },
            (_, _, Some(cluster)) => cluster.envelope(),
            _ => Envelope::DEFAULT,
        };
        let options = match (&self.interface, &cluster) {
            (Some(interfaces), _) => Options::trunk(interfaces.split(',')),
            (None, Some(cluster)) => cluster.options().map_err(|error| error.to_string())?,
            (None, None) => Options::new(&only_one_up("choose one by --interface")?),
        };
        let options = options.envelope(envelope).channels([CHANNEL]).local(true);
        Ok(Site { cluster, options, envelope })
    }
}

impl Site {
    /// The endpoint of `gigae share`.
    pub(crate) fn server(&self) -> Result<Endpoint, String> {
        let endpoint = self.options.clone().port(PORT).open();
        endpoint.map_err(|error| error.to_string())
    }

    /// Holds this endpoint's interface for one `gigae share`: two would answer the same frames. It
    /// ends with the process, however that ends.
    pub(crate) fn claim(&self, endpoint: &Endpoint) -> Result<Option<UnixListener>, String> {
        let name = format!("gigae share {:?} {}", self.envelope, endpoint.identity().mac);
        let bound =
            SocketAddr::from_abstract_name(name).and_then(|at| UnixListener::bind_addr(&at));
        match bound {
            Ok(held) => Ok(Some(held)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                Err("another 'gigae share' runs \
                on this interface; end it, and share a directory above both"
                    .into())
            }
            // Without such sockets, nothing is known of others.
            Err(_) => Ok(None),
        }
    }

    /// The endpoint of `gigae cp`, which often lives only for a moment. If the server's node is
    /// this one, it has an interface of its own, since frames do not come back to the interface
    /// that they leave by.
    pub(crate) fn client(&self, to: Address) -> Result<Endpoint, String> {
        let open = |sharing| {
            let options = match self.envelope {
                Envelope::Udp { .. } => self.options.clone().port(CLIENT_PORT),
                // Which only must differ from that of others on this interface.
                Envelope::Ethernet { .. } => self
                    .options
                    .clone()
                    .port((RandomState::new().build_hasher().finish() % 32_000) as u16 + 1),
            };
            options.sharing(sharing).ring(false).open().map_err(|error| error.to_string())
        };
        let sharing = match self.envelope {
            Envelope::Udp { .. } => Sharing::Auto,
            Envelope::Ethernet { .. } => Sharing::Alone,
        };
        let endpoint = open(sharing)?;
        let own = endpoint.identity();
        let is_own = [Some(Address::from(own.mac)), own.ip.map(Address::from)]
            .into_iter()
            .flatten()
            .any(|address| address.port(PORT).channel(CHANNEL) == to);
        match (is_own, self.envelope) {
            (true, Envelope::Ethernet { .. }) => {
                drop(endpoint);
                open(Sharing::Child)
            }
            _ => Ok(endpoint),
        }
    }

    /// The address of a node's server, by the node's name or address.
    pub(crate) fn address(&self, node: &str) -> Result<Address, String> {
        let address = match (node.parse::<Address>(), &self.cluster) {
            (Ok(address), _) => address,
            (Err(_), Some(cluster)) => cluster.node(node).map_err(|error| error.to_string())?,
            (Err(_), None) => {
                return Err(format!(
                    "'{node}' is not an address, and there is no cluster file with names; write \
                     one with 'gigae discover --write FILE', and name it with --cluster"
                ));
            }
        };
        Ok(address.port(PORT).channel(CHANNEL))
    }
}
