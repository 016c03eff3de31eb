//! Shards with their replicas, the gateways, and the work of the followed one.

use crate::{format, pages::network::texts::shards as texts, pages::parts};
use corniche_api::{GatewayInfo, ShardInfo, Shards};
use maud::{Markup, html};

pub fn section(shards: &Shards) -> Markup {
    html! {
        section {
            h2 { (texts::SHARDS) }
            p .note { (texts::NOTE) }
            div #shards data-live="shards" {
                (parts::table(texts::SHARDS, &[texts::SHARD, texts::REPLICAS, texts::CONNECTED], shards.shards.iter().map(shard).collect()))
                h3 { (texts::GATEWAYS) }
                (parts::table(texts::GATEWAYS, &[texts::KEY, texts::CONNECTED], shards.gateways.iter().map(gateway).collect()))
                h3 { (texts::WORK) }
                (work(shards))
            }
        }
    }
}

fn shard(info: &ShardInfo) -> Vec<Markup> {
    let connected = info.replicas.iter().filter(|replica| replica.connected).count() as u64;
    let missing: Vec<_> = (0..).zip(&info.replicas).filter(|(_, replica)| !replica.connected).collect();
    vec![
        html! { (format::number(info.shard)) },
        html! { (format::number(info.replicas.len() as u64)) },
        html! {
            (format::number(connected))
            @if !missing.is_empty() {
                " " span .tag.bad { (texts::missing(missing.iter().map(|(member, _)| *member))) }
            }
        },
    ]
}

fn gateway(info: &GatewayInfo) -> Vec<Markup> {
    let state = match (info.own, info.connected) {
        (true, _) => texts::OWN,
        (false, true) => texts::YES,
        (false, false) => texts::NO,
    };
    vec![parts::hash_in_short(info.consensus_key), html! { (state) }]
}

fn work(shards: &Shards) -> Markup {
    let number = |number: u64| html! { (format::number(number)) };
    let statistics = &shards.statistics;
    parts::facts(&[
        (texts::FAST, number(statistics.fast)),
        (texts::LOGGED, number(statistics.logged)),
        (texts::RECONCILED, number(statistics.reconciled)),
        (texts::RETRIES, number(statistics.retries)),
        (texts::DROPPED, number(statistics.dropped)),
        (texts::RECOVERED, number(statistics.recovered)),
    ])
}
