//! Plans of reads and writes within a file: their cells, and what is refused.

use gigae_eval_model::plan::Plan;

const SMALL: &str = r#"
name = "small"
about = "a test"
repetitions = 2
max_repetitions = 3
[link.here]
[[experiment]]
kind = "rtt"
links = ["here"]
transports = ["tcp", "udp"]
sizes = [8]
waits = ["spin"]
seconds = 0.1
warmup = 0.0
"#;

const ACCESS: &str = r#"
[source]
paper = "a paper"
[[access]]
service = "nfs"
links = ["here"]
size_mib = 2
patterns = ["read", "randrw"]
blocks = [4096, 65536]
depths = [1, 32]
ways = ["network", "localhost"]
[[access_paper]]
source = "paper"
at = "table 1"
what = "random reads"
megabytes = 13.5
of = { service = "nfs", link = "here", pattern = "randrw", block = 4096, depth = 32 }
"#;

#[test]
fn accesses_give_a_cell_for_each_of_their_product_and_belong_to_their_link() {
    let plan = Plan::parse("test", &format!("{SMALL}{ACCESS}")).unwrap();
    let cells = plan.access_cells(Some("here"));
    assert_eq!(cells.len(), 2 * 2 * 2 * 2);
    assert!(cells.iter().all(|(cell, times)| {
        (cell.size, cell.fsync, *times) == (2 << 20, 0, plan.repetitions)
    }));
    assert!(plan.access_cells(Some("elsewhere")).is_empty());
    let part = |only: &str| plan.only(&only.parse().unwrap()).unwrap();
    let here = part("link=here");
    assert_eq!((here.access_cells(None), here.access_paper.len()), (cells, 1));
    let udp = part("link=here,transport=udp");
    assert!(udp.access.is_empty() && udp.access_paper.is_empty());
}

#[test]
fn accesses_that_make_no_sense_are_refused_by_name() {
    let cases = [
        ("service = \"nfs\"\nlinks", "service = \"ftp\"\nlinks", "known: nfs"),
        ("links = [\"here\"]\nsize_mib", "links = [\"there\"]\nsize_mib", "'there'"),
        ("size_mib = 2", "size_mib = 0", "size_mib"),
        ("blocks = [4096, 65536]", "blocks = [1000]", "multiples of 512"),
        ("blocks = [4096, 65536]", "blocks = [4194304]", "no larger than"),
        // Each of two connections has half of the file.
        ("blocks = [4096, 65536]", "blocks = [2097152]", "a connection's part of the file"),
        ("blocks = [4096, 65536]", "blocks = []", "empty"),
        ("depths = [1, 32]", "depths = [17]", "depths"),
        ("depths = [1, 32]", "depths = [80]", "depths"),
        ("depths = [1, 32]", "depths = [1]\nfsync = 1", "patterns that write"),
        ("\"read\", \"randrw\"]", "\"write\"]\nfsync = 0", "at least 1"),
        ("\"read\", \"randrw\"]", "\"read\"]\nexports = [\"sync\"]", "patterns that write"),
        ("\"read\", \"randrw\"]", "\"randrw\"]\nfsync = 1", "only write"),
        ("depths = [1, 32]", "depths = [1]\nseconds = 0", "seconds"),
        ("depths = [1, 32]", "depths = [1]\nrepetitions = 0", "repetitions"),
        ("depth = 32", "depth = 2", "measures it"),
        ("source = \"paper\"", "source = \"other\"", "unknown source"),
    ];
    for (good, bad, named) in cases {
        assert!(ACCESS.contains(good), "{good}");
        let error = refused(&format!("{SMALL}{}", ACCESS.replace(good, bad)));
        assert!(error.contains(named), "{error} does not name {named}");
    }
    let loopback =
        format!("{SMALL}{ACCESS}").replace("[link.here]", "[link.here]\nloopback = true");
    assert!(refused(&loopback).contains("no second node"));
    let ways = "\"network\", \"localhost\"]";
    let local = ACCESS.replace(ways, "\"local\"]\nexports = [\"sync\"]");
    let local = local.replace("\"read\", \"randrw\"", "\"write\"");
    assert!(refused(&format!("{SMALL}{local}")).contains("has no export"));
}

fn refused(text: &str) -> String {
    let error = Plan::parse("test", text).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}
