//! An explorer of the node at the first argument, on the database at the second one, at the third address; for work on the pages.
use corniche_web::{Config, Explorer, indexer::Keep, limits::Rate};

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let [node, database, listen] = [1, 2, 3].map(|at| std::env::args().nth(at).expect("NODE DATABASE ADDRESS"));
    let config = Config {
        node,
        database,
        listen: listen.parse().expect("an address"),
        currency: "CRN".into(),
        keep: Keep::default(),
        rate: Rate::default(),
    };
    let explorer = Explorer::open(&config).await.expect("an explorer");
    eprintln!("http://{}", explorer.address().expect("an address"));
    explorer.run(std::future::pending()).await.expect("a server");
}
