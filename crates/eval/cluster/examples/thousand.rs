//! Writes the results and the report of a cluster that does not exist, to see how large they are
//! and how a browser takes them:
//!
//! ```sh
//! cargo run --release -p gigae-eval-cluster --example thousand -- 1000 DIR
//! ```
//!
//! Host h3 sends slowly, the last 40 hosts are behind a slow uplink, and the pair of h10 and h20 is
//! slow.

use gigae_eval_cluster::results::testing::synthetic;
use gigae_eval_cluster::{ClusterResults, report, rounds};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let hosts: usize = words.next().ok_or("say how many hosts")?.parse()?;
    let place = words.next().ok_or("say into which directory")?;
    let place = Path::new(&place);
    std::fs::create_dir_all(place)?;
    let results = with_faults(hosts);
    let write = |name: &str, make: &dyn Fn() -> String| -> std::io::Result<()> {
        let begin = Instant::now();
        let text = make();
        println!("{name}: {} bytes, made in {:.2} s", text.len(), begin.elapsed().as_secs_f64());
        std::fs::write(place.join(name), text)
    };
    write("results.json", &|| results.to_json())?;
    write("results.csv", &|| results.to_csv())?;
    write("report.html", &|| report::html(&results))?;
    write("report.md", &|| report::markdown(&results))?;
    let begin = Instant::now();
    let text = std::fs::read_to_string(place.join("results.json"))?;
    let again = ClusterResults::parse(&text)?;
    println!("read again in {:.2} s: {}", begin.elapsed().as_secs_f64(), again == results);
    print!("{}", report::text(&results, false));
    Ok(())
}

fn with_faults(hosts: usize) -> ClusterResults {
    let mut results = synthetic(hosts);
    let group = hosts.saturating_sub(40);
    for one in &mut results.transports {
        for a in 0..hosts {
            for b in a + 1..hosts {
                let at = rounds::index(hosts, a, b);
                let across = (a >= group) != (b >= group);
                let pair = (a, b) == (9, 19);
                if across || pair || a == 2 {
                    one.forward[at] = one.forward[at].map(|rate| rate / 4.0);
                }
                if across || pair || b == 2 {
                    one.backward[at] = one.backward[at].map(|rate| rate / 4.0);
                }
                if across || pair {
                    one.trip_p50[at] = one.trip_p50[at].map(|trip| trip * 2.0);
                }
            }
        }
    }
    results
}
