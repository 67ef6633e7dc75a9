//! What a node of a Redis Cluster knows of all of them.

use crate::{Address, Class, Config, Failure, connect::log_in};

/// A node that serves slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterNode {
    pub(crate) address: Address,
    /// Rises when slots change hands.
    pub(crate) epoch: u64,
    /// First and last slot of each range.
    pub(crate) slots: Vec<(u16, u16)>,
}

impl ClusterNode {
    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// The nodes that serve slots, as the one at `address` sees it.
pub(crate) async fn ask(config: &Config, address: Address) -> Result<Vec<ClusterNode>, Failure> {
    let mut connection = log_in(config, &address).await?;
    let mut ask = redis::cmd("CLUSTER");
    let asked: Result<String, _> = ask.arg("NODES").query_async(&mut connection).await;
    match asked {
        Ok(text) => Ok(parse(&text, &address)),
        Err(error) if error.to_string().contains("cluster support disabled") => {
            let hint = "name a node of the cluster, or write redis://host:port/ for a standalone \
                        server";
            let reason = format!("{address} is no node of a Redis Cluster");
            Err(Failure::new(Class::Fatal { hint }, reason))
        }
        Err(error) => Err(Failure::from(error).before_call()),
    }
}

/// Reads the answer of `CLUSTER NODES`: one node in a line, `id host:port@bus[,name] flags primary
/// ping pong epoch link slot…`. Nodes without slots and lines that cannot be read are left out.
fn parse(text: &str, asked: &Address) -> Vec<ClusterNode> {
    text.lines().filter_map(|line| node(line, asked)).collect()
}

fn node(line: &str, asked: &Address) -> Option<ClusterNode> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let [_, address, flags, _, _, _, epoch, _, slots @ ..] = words.as_slice() else {
        return None;
    };
    // A replica serves none; a primary that has failed serves none any more when a replica has
    // taken over, which then has the higher epoch.
    if !flags.split(',').any(|flag| flag == "master") {
        return None;
    }
    let address = address.split(['@', ',']).next()?;
    // Slots on their way stand in brackets: they are still served here.
    let slots: Vec<_> = slots.iter().filter_map(|range| slot_range(range)).collect();
    (!slots.is_empty()).then_some(())?;
    Some(ClusterNode {
        address: Address::printed(address, asked)?,
        epoch: epoch.parse().ok()?,
        slots,
    })
}

fn slot_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_with_their_slots_are_read() {
        let text = "\
a1 :7001@17001 myself,master - 0 0 3 connected 0-5460 [93->-b2] 6000
b2 10.0.0.2:7002@17002,b.example master - 0 1 2 connected 5461-5999 [93-<-a1]
c3 10.0.0.3:7003@17003 slave a1 0 1 3 connected
d4 10.0.0.4:7004@17004 master - 0 1 4 connected
broken line
e5 10.0.0.5:0@0 master,fail,noaddr - 0 1 5 disconnected 1-2
";
        let asked = Address {
            host: "asked".to_owned(),
            port: 1,
        };
        let nodes = parse(text, &asked);
        let found: Vec<_> = nodes
            .iter()
            .map(|node| (node.address.to_string(), node.epoch, node.slots.clone()))
            .collect();
        assert_eq!(
            found,
            [
                ("asked:7001".to_owned(), 3, vec![(0, 5460), (6000, 6000)]),
                ("10.0.0.2:7002".to_owned(), 2, vec![(5461, 5999)]),
            ]
        );
        assert!(nodes[0].serves(6000) && !nodes[0].serves(93 + 6000));
    }
}
