//! Tests the guarantees of a world to its processes.

use corniche_testkit::{Action, DiskModel, Event, Links, Micros, Process, World};
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

fn world(identities: &[usize], size: usize) -> World<Scribe> {
    let disks = DiskModel { sync: Micros(50), rate: Some(1_000_000) };
    let start = Box::new(|_, disk, _, _| Scribe { disk, ..Scribe::default() });
    let mut world = World::with_players(identities.to_vec(), Links::uniform(size, Micros(100)), disks, 1, start);
    world.start_all();
    world.run_for(Micros(0));
    (0..world.size()).for_each(|node| world.with(node, |scribe| scribe.seen.clear()).unwrap());
    world
}

fn tell(world: &mut World<Scribe>, node: usize, actions: impl IntoIterator<Item = Action<u32>>) {
    world.with(node, |scribe| scribe.todo.extend(actions)).unwrap();
}

fn send(to: usize, message: u32) -> Action<u32> {
    Action::Send { to, message, bytes: 1_000 }
}

fn seen(world: &World<Scribe>, node: usize) -> Vec<(u64, &str)> {
    world.process(node).unwrap().seen.iter().map(|(at, text)| (*at, text.as_str())).collect()
}

#[test]
fn messages_take_their_delay_and_wait_for_the_line() {
    let mut world = world(&[0, 1], 2);
    tell(&mut world, 0, [send(1, 7)]);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 1), [(100, "7 from 0")]);
    world.links.egress = Some(10_000_000);
    tell(&mut world, 0, [send(1, 8), send(1, 9)]);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 1)[1..], [(1_200, "8 from 0"), (1_300, "9 from 0")]);
}

#[test]
fn work_delays_what_the_node_does_next_and_what_happens_to_it() {
    let mut world = world(&[0, 1], 2);
    world.with(1, |scribe| scribe.slow = Micros(30)).unwrap();
    tell(&mut world, 0, [send(1, 1), send(1, 2), Action::Work(Micros(10)), send(1, 3)]);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 1), [(100, "1 from 0"), (130, "2 from 0"), (160, "3 from 0")]);
}

#[test]
fn what_is_on_its_way_when_a_connection_breaks_is_lost_also_when_it_comes_back() {
    let mut world = world(&[0, 1, 2], 3);
    tell(&mut world, 0, [send(1, 1), send(2, 2)]);
    world.partition(&[vec![0, 2], vec![1]]);
    world.heal();
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 1), [(0, "down 0"), (0, "down 2"), (0, "up 0"), (0, "up 2")]);
    assert_eq!(seen(&world, 2), [(0, "down 1"), (0, "up 1"), (100, "2 from 0")]);
    assert_eq!((world.statistics.lost, world.statistics.delivered), (1, 1));
}

#[test]
fn a_power_cut_keeps_what_was_written_and_nothing_else() {
    let mut world = world(&[0, 1], 2);
    tell(&mut world, 0, [Action::Write { id: 1, bytes: 100 }, Action::Write { id: 2, bytes: 100 }]);
    world.run_for(Micros(150));
    assert_eq!(seen(&world, 0), [(150, "written 1")]);
    world.crash(0);
    assert!(!world.is_up(0) && world.is_up(1));
    world.run_for(Micros(1_000));
    world.restart(0);
    world.run_for(Micros(1_000));
    assert_eq!(world.process(0).unwrap().disk, [1], "the second write belongs to an earlier life");
    assert_eq!(seen(&world, 1), [(150, "down 0"), (1_150, "up 0")]);
    world.lose_disk(0);
    assert_eq!(world.disk(0), Some(&mut Vec::new()));
}

#[test]
fn a_deadline_may_move_both_ways() {
    let mut world = world(&[0], 1);
    world.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(500)));
    world.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(100)));
    world.with(0, |scribe| scribe.deadline = Some(Micros::START + Micros(300)));
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 0), [(300, "deadline")]);
}

#[test]
fn twins_hear_everything_and_are_up_once() {
    let mut world = world(&[0, 1, 1], 2);
    tell(&mut world, 0, [send(1, 5)]);
    tell(&mut world, 1, [send(0, 6)]);
    tell(&mut world, 2, [send(0, 7)]);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 0), [(100, "6 from 1"), (100, "7 from 1")]);
    assert_eq!((seen(&world, 1), seen(&world, 2)), (vec![(100, "5 from 0")], vec![(100, "5 from 0")]));
    world.crash(1);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 0).len(), 2, "the other twin is still there");
    world.crash(2);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 0)[2..], [(2_000, "down 1")]);
}

#[test]
fn who_is_separated_hears_its_own_player_only() {
    let mut world = world(&[0, 1, 2, 2], 3);
    world.separate(0, 3);
    world.separate(1, 2);
    tell(&mut world, 0, [send(2, 1)]);
    tell(&mut world, 1, [send(2, 2)]);
    world.run_for(Micros(1_000));
    assert_eq!(seen(&world, 2)[1..], [(100, "1 from 0")]);
    assert_eq!(seen(&world, 3)[1..], [(100, "2 from 1")]);
}
