//! Tests the guarantees of a simulation to its processes.

use corniche_testkit::{Action, DiskModel, Event, Links, Micros, Process, Simulation};
use std::collections::VecDeque;

/// Records its events and runs the actions that a test queues.
#[derive(Default)]
struct Scribe {
    seen: Vec<(u64, String)>,
    todo: VecDeque<Action<u32>>,
    deadline: Option<Micros>,
    /// Processing time per message.
    slow: Micros,
    disk: Vec<u64>,
}

impl Process for Scribe {
    type Message = u32;
    type Disk = Vec<u64>;

    fn handle(&mut self, now: Micros, event: Event<u32>) {
        let text = match event {
            Event::Up(peer) => format!("up {peer}"),
            Event::Down(peer) => format!("down {peer}"),
            Event::Message { from, message } => {
                self.todo.push_back(Action::Work(self.slow));
                format!("{message} from {from}")
            }
            Event::Written(id) => {
                self.disk.push(id);
                format!("written {id}")
            }
            Event::Deadline => {
                self.deadline = None;
                "deadline".into()
            }
        };
        self.seen.push((now.0 - Micros::START.0, text));
    }

    fn poll(&mut self) -> Option<Action<u32>> {
        self.todo.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        self.deadline
    }

    fn power_off(self) -> Vec<u64> {
        self.disk
    }
}

fn simulation(identities: &[usize], size: usize) -> Simulation<Scribe> {
    let disks = DiskModel { sync: Micros(50), rate: Some(1_000_000) };
    let start = Box::new(|_, disk, _, _| Scribe { disk, ..Scribe::default() });
    let mut simulation = Simulation::with_identities(identities.to_vec(), Links::uniform(size, Micros(100)), disks, 1, start);
    simulation.start_all();
    simulation.run_for(Micros(0));
    (0..simulation.size()).for_each(|node| simulation.with(node, |scribe| scribe.seen.clear()).unwrap());
    simulation
}

fn tell(simulation: &mut Simulation<Scribe>, node: usize, actions: impl IntoIterator<Item = Action<u32>>) {
    simulation.with(node, |scribe| scribe.todo.extend(actions)).unwrap();
}

fn send(to: usize, message: u32) -> Action<u32> {
    Action::Send { to, message, bytes: 1_000 }
}

fn seen(simulation: &Simulation<Scribe>, node: usize) -> Vec<(u64, &str)> {
    simulation.process(node).unwrap().seen.iter().map(|(at, text)| (*at, text.as_str())).collect()
}

#[test]
fn messages_take_link_delay_and_egress_time() {
    let mut simulation = simulation(&[0, 1], 2);
    tell(&mut simulation, 0, [send(1, 7)]);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 1), [(100, "7 from 0")]);
    simulation.links.egress = Some(10_000_000);
    tell(&mut simulation, 0, [send(1, 8), send(1, 9)]);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 1)[1..], [(1_200, "8 from 0"), (1_300, "9 from 0")]);
}

#[test]
fn work_delays_actions_and_events() {
    let mut simulation = simulation(&[0, 1], 2);
    simulation.with(1, |scribe| scribe.slow = Micros(30)).unwrap();
    tell(&mut simulation, 0, [send(1, 1), send(1, 2), Action::Work(Micros(10)), send(1, 3)]);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 1), [(100, "1 from 0"), (130, "2 from 0"), (160, "3 from 0")]);
}

#[test]
fn broken_connection_loses_messages_in_transit() {
    let mut simulation = simulation(&[0, 1, 2], 3);
    tell(&mut simulation, 0, [send(1, 1), send(2, 2)]);
    simulation.partition(&[vec![0, 2], vec![1]]);
    simulation.heal();
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 1), [(0, "down 0"), (0, "down 2"), (0, "up 0"), (0, "up 2")]);
    assert_eq!(seen(&simulation, 2), [(0, "down 1"), (0, "up 1"), (100, "2 from 0")]);
    assert_eq!((simulation.statistics.lost, simulation.statistics.delivered), (1, 1));
}

#[test]
fn power_cut_keeps_only_completed_writes() {
    let mut simulation = simulation(&[0, 1], 2);
    tell(&mut simulation, 0, [Action::Write { id: 1, bytes: 100 }, Action::Write { id: 2, bytes: 100 }]);
    simulation.run_for(Micros(150));
    assert_eq!(seen(&simulation, 0), [(150, "written 1")]);
    simulation.crash(0);
    assert!(!simulation.is_up(0) && simulation.is_up(1));
    simulation.run_for(Micros(1_000));
    simulation.restart(0);
    simulation.run_for(Micros(1_000));
    assert_eq!(simulation.process(0).unwrap().disk, [1], "the second write belongs to an earlier life");
    assert_eq!(seen(&simulation, 1), [(150, "down 0"), (1_150, "up 0")]);
    simulation.lose_disk(0);
    assert_eq!(simulation.disk(0), Some(&mut Vec::new()));
}

#[test]
fn deadline_can_move_both_ways() {
    let mut simulation = simulation(&[0], 1);
    simulation.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(500)));
    simulation.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(100)));
    simulation.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(300)));
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 0), [(300, "deadline")]);
}

#[test]
fn twins_receive_all_messages_and_connect_once() {
    let mut simulation = simulation(&[0, 1, 1], 2);
    tell(&mut simulation, 0, [send(1, 5)]);
    tell(&mut simulation, 1, [send(0, 6)]);
    tell(&mut simulation, 2, [send(0, 7)]);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 0), [(100, "6 from 1"), (100, "7 from 1")]);
    assert_eq!((seen(&simulation, 1), seen(&simulation, 2)), (vec![(100, "5 from 0")], vec![(100, "5 from 0")]));
    simulation.crash(1);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 0).len(), 2, "the other twin is still there");
    simulation.crash(2);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 0)[2..], [(2_000, "down 1")]);
}

#[test]
fn separated_process_reaches_one_twin_only() {
    let mut simulation = simulation(&[0, 1, 2, 2], 3);
    simulation.separate(0, 3);
    simulation.separate(1, 2);
    tell(&mut simulation, 0, [send(2, 1)]);
    tell(&mut simulation, 1, [send(2, 2)]);
    simulation.run_for(Micros(1_000));
    assert_eq!(seen(&simulation, 2)[1..], [(100, "1 from 0")]);
    assert_eq!(seen(&simulation, 3)[1..], [(100, "2 from 1")]);
}
