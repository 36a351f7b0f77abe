//! A first program. On one node: `hello eth1`; on another: `hello eth1 MAC-OF-THE-FIRST`.

use gigae::{Address, Endpoint};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or("usage: hello INTERFACE [PEER]")?;
    let endpoint = Endpoint::open(&interface)?;
    if let Some(peer) = arguments.next() {
        let peer = endpoint.peer(peer.parse::<Address>()?)?;
        endpoint.send(peer, b"hello")?;
    } else {
        println!("waiting on {}", endpoint.link().mac);
    }
    let message = endpoint.recv()?;
    let from = endpoint.address(message.from());
    println!("{from} says {}", String::from_utf8_lossy(&message));
    if arguments.len() == 0 && &message[..] == b"hello" {
        endpoint.send(message.from(), b"hello to you")?;
    }
    endpoint.drain(Duration::from_secs(1))?;
    Ok(())
}
