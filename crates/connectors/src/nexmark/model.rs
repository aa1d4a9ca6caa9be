//! The auction site of Nexmark: which event has which number, and what is in it.
//!
//! After the generator of nexmark/nexmark (itself after Apache Beam's): of every `person + auction + bid` events the
//! first are persons, the next auctions, the rest bids; ids follow from the event's number; half of the bids go to
//! a hot auction, three of four from a hot bidder, and so on. Random values are counter-based, so the data is not
//! that of the Java generator to the byte, but of the same shape.

use crate::random::Random;

/// First id of persons and auctions.
const FIRST_ID: u64 = 1000;
/// First category; there are five.
const FIRST_CATEGORY: u64 = 10;
/// Persons and auctions that are still active and can be chosen.
const ACTIVE_PEOPLE: u64 = 1000;
const IN_FLIGHT_AUCTIONS: u64 = 100;
/// New ids that are chosen a little before they exist, as in the original.
const ID_LEAD: u64 = 10;
/// Hot ids are the multiples of this.
const HOT_STEP: u64 = 100;
/// Cold channels.
const CHANNELS: u64 = 10_000;

const FIRST_NAMES: [&str; 11] =
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];
const LAST_NAMES: [&str; 9] = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];
const CITIES: [&str; 10] =
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"];
const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];

/// The kinds of events; the number is the value of `event_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Person = 0,
    Auction = 1,
    Bid = 2,
}

/// Shape of the stream.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) seed: u64,
    pub(crate) base_time_ms: i64,
    /// Events per second of event time.
    pub(crate) rate: u64,
    pub(crate) persons: u64,
    pub(crate) auctions: u64,
    pub(crate) bids: u64,
    pub(crate) hot_auction_ratio: u64,
    pub(crate) hot_bidder_ratio: u64,
    pub(crate) hot_seller_ratio: u64,
    pub(crate) person_bytes: usize,
    pub(crate) auction_bytes: usize,
    pub(crate) bid_bytes: usize,
}

/// A field of an event, by the name it has in the table; the number also names its random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventField {
    Id = 1,
    Name,
    Email,
    CreditCard,
    City,
    State,
    Time,
    Extra,
    Description,
    InitialBid,
    Reserve,
    Expires,
    Seller,
    Category,
    Auction,
    Bidder,
    Price,
    Channel,
    Url,
}

impl EventField {
    /// The field called `name` in the row of `kind`.
    pub(crate) fn of(kind: EventKind, name: &str) -> Option<EventField> {
        use EventField::*;
        let field = match (kind, name) {
            (_, "dateTime") => Time,
            (_, "extra") => Extra,
            (EventKind::Person | EventKind::Auction, "id") => Id,
            (EventKind::Person, "name") => Name,
            (EventKind::Person, "emailAddress") => Email,
            (EventKind::Person, "creditCard") => CreditCard,
            (EventKind::Person, "city") => City,
            (EventKind::Person, "state") => State,
            (EventKind::Auction, "itemName") => Name,
            (EventKind::Auction, "description") => Description,
            (EventKind::Auction, "initialBid") => InitialBid,
            (EventKind::Auction, "reserve") => Reserve,
            (EventKind::Auction, "expires") => Expires,
            (EventKind::Auction, "seller") => Seller,
            (EventKind::Auction, "category") => Category,
            (EventKind::Bid, "auction") => Auction,
            (EventKind::Bid, "bidder") => Bidder,
            (EventKind::Bid, "price") => Price,
            (EventKind::Bid, "channel") => Channel,
            (EventKind::Bid, "url") => Url,
            _ => return None,
        };
        Some(field)
    }

    /// Whether the field is a string.
    pub(crate) fn is_text(self) -> bool {
        use EventField::*;
        matches!(self, Name | Email | CreditCard | City | State | Extra | Description | Channel | Url)
    }

    /// Whether the field is a point in time, in milliseconds.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, EventField::Time | EventField::Expires)
    }
}

impl Model {
    fn total(&self) -> u64 {
        self.persons + self.auctions + self.bids
    }

    fn random(&self, event: u64, field: EventField) -> Random {
        Random::new(self.seed, event, field as u64)
    }

    /// What event number `event` is.
    pub(crate) fn kind(&self, event: u64) -> EventKind {
        let place = event % self.total();
        if place < self.persons {
            EventKind::Person
        } else if place < self.persons + self.auctions {
            EventKind::Auction
        } else {
            EventKind::Bid
        }
    }

    /// Event time.
    pub(crate) fn time_ms(&self, event: u64) -> i64 {
        self.base_time_ms + (event as u128 * 1000 / self.rate as u128) as i64
    }

    /// Number of the last person at `event`, from 0.
    fn last_person(&self, event: u64) -> u64 {
        let (epoch, place) = (event / self.total(), event % self.total());
        (epoch * self.persons + place.min(self.persons - 1)).min(u64::MAX - FIRST_ID)
    }

    /// Number of the last auction at `event`, from 0.
    fn last_auction(&self, event: u64) -> u64 {
        let (epoch, place) = (event / self.total(), event % self.total());
        if self.auctions == 0 {
            return 0;
        }
        match place.checked_sub(self.persons) {
            // During the persons of this round the last auction is that of the round before.
            None => (epoch * self.auctions).saturating_sub(1),
            Some(place) => epoch * self.auctions + place.min(self.auctions - 1),
        }
    }

    fn any_person(&self, event: u64, random: &mut Random) -> u64 {
        let people = self.last_person(event) + 1;
        let active = people.min(ACTIVE_PEOPLE);
        people - active + random.below(active + ID_LEAD)
    }

    fn any_auction(&self, event: u64, random: &mut Random) -> u64 {
        let last = self.last_auction(event);
        let first = last.saturating_sub(IN_FLIGHT_AUCTIONS);
        first + random.below(last - first + 1 + ID_LEAD)
    }

    /// Log-uniform between 1 and 1,000,000 dollars, in cents.
    fn price(random: &mut Random) -> i64 {
        (10f64.powf(random.unit() * 6.0) * 100.0).round() as i64
    }

    /// Value of a number or time field.
    pub(crate) fn number(&self, kind: EventKind, event: u64, field: EventField) -> i64 {
        let mut random = self.random(event, field);
        let number = match field {
            EventField::Time => return self.time_ms(event),
            EventField::Id if kind == EventKind::Person => FIRST_ID + self.last_person(event),
            EventField::Id => FIRST_ID + self.last_auction(event),
            EventField::Seller if random.below(self.hot_seller_ratio) > 0 => {
                FIRST_ID + self.last_person(event) / HOT_STEP * HOT_STEP
            }
            EventField::Seller => FIRST_ID + self.any_person(event, &mut random),
            EventField::Category => FIRST_CATEGORY + random.below(5),
            EventField::InitialBid | EventField::Price => return Model::price(&mut random),
            EventField::Reserve => {
                return self.number(kind, event, EventField::InitialBid) + Model::price(&mut random);
            }
            EventField::Expires => return self.time_ms(event) + self.auction_length_ms(event, &mut random),
            EventField::Auction if random.below(self.hot_auction_ratio) > 0 => {
                FIRST_ID + self.last_auction(event) / HOT_STEP * HOT_STEP
            }
            EventField::Auction => FIRST_ID + self.any_auction(event, &mut random),
            EventField::Bidder if random.below(self.hot_bidder_ratio) > 0 => {
                FIRST_ID + self.last_person(event) / HOT_STEP * HOT_STEP + 1
            }
            EventField::Bidder => FIRST_ID + self.any_person(event, &mut random),
            _ => 0,
        };
        number as i64
    }

    /// Long enough for about [`IN_FLIGHT_AUCTIONS`] further auctions, at least a millisecond.
    fn auction_length_ms(&self, event: u64, random: &mut Random) -> i64 {
        let events_ahead = IN_FLIGHT_AUCTIONS * self.total() / self.auctions.max(1);
        let horizon = self.time_ms(event + events_ahead) - self.time_ms(event);
        1 + random.below((horizon.max(1) * 2) as u64) as i64
    }

    /// Appends the value of a text field.
    pub(crate) fn text(&self, kind: EventKind, event: u64, field: EventField, out: &mut Vec<u8>) {
        let mut random = self.random(event, field);
        match field {
            EventField::Name if kind == EventKind::Person => {
                out.extend_from_slice(pick(&FIRST_NAMES, &mut random));
                out.push(b' ');
                out.extend_from_slice(pick(&LAST_NAMES, &mut random));
            }
            EventField::Name => varied(20, &mut random, out),
            EventField::Email => {
                varied(7, &mut random, out);
                out.push(b'@');
                varied(5, &mut random, out);
                out.extend_from_slice(b".com");
            }
            EventField::CreditCard => {
                for group in 0..4 {
                    if group > 0 {
                        out.push(b' ');
                    }
                    let digits = random.below(10_000);
                    out.extend(
                        [digits / 1000, digits / 100 % 10, digits / 10 % 10, digits % 10].map(|d| b'0' + d as u8),
                    );
                }
            }
            EventField::City => out.extend_from_slice(pick(&CITIES, &mut random)),
            EventField::State => out.extend_from_slice(pick(&STATES, &mut random)),
            EventField::Description => varied(100, &mut random, out),
            EventField::Channel => self.channel(event, out),
            EventField::Url => self.url(event, &mut random, out),
            EventField::Extra => {
                let (size, rest) = match kind {
                    EventKind::Person => (self.person_bytes, 90),
                    EventKind::Auction => (self.auction_bytes, 160),
                    EventKind::Bid => (self.bid_bytes, 32),
                };
                // Around the size that is left to reach the average, by ± 20 %.
                let wanted = size.saturating_sub(rest);
                let delta = (wanted / 5) as i64;
                let length = wanted as i64 + random.between(-delta, delta);
                random.letters(length as usize, out);
            }
            _ => {}
        }
    }

    /// The hot channel of a bid, or the number of a cold one.
    fn channel_of(&self, event: u64) -> Result<usize, u64> {
        let mut random = self.random(event, EventField::Channel);
        if random.below(2) > 0 { Ok(random.below(4) as usize) } else { Err(random.below(CHANNELS)) }
    }

    fn channel(&self, event: u64, out: &mut Vec<u8>) {
        match self.channel_of(event) {
            Ok(hot) => out.extend_from_slice(HOT_CHANNELS[hot].as_bytes()),
            Err(number) => out.extend_from_slice(format!("channel-{number}").as_bytes()),
        }
    }

    /// The URL of a channel: always the same for one channel; nine of ten cold channels have their id in it.
    fn url(&self, event: u64, random: &mut Random, out: &mut Vec<u8>) {
        out.extend_from_slice(b"https://www.nexmark.com/");
        let channel = self.channel_of(event);
        let key = channel.map_or_else(|cold| cold + HOT_CHANNELS.len() as u64, |hot| hot as u64);
        *random = Random::new(self.seed, key, EventField::Url as u64 | 1 << 32);
        for _ in 0..3 {
            varied(5, random, out);
            out.push(b'/');
        }
        out.extend_from_slice(b"item.htm?query=1");
        if let Err(number) = channel
            && random.below(10) > 0
        {
            let id = (number as u32).reverse_bits() >> 1;
            out.extend_from_slice(format!("&channel_id={id}").as_bytes());
        }
    }
}

fn pick(from: &'static [&'static str], random: &mut Random) -> &'static [u8] {
    from[random.below(from.len() as u64) as usize].as_bytes()
}

/// 3 to `longest` letters with now and then a space, as the original's `nextString`.
fn varied(longest: u64, random: &mut Random, out: &mut Vec<u8>) {
    let length = 3 + random.below(longest.saturating_sub(2)) as usize;
    let start = out.len();
    random.letters(length, out);
    if longest > 7 {
        // Blanks only inside, one of about thirteen letters.
        let inner = out.len() - 1;
        for byte in &mut out[start + 1..inner] {
            if random.below(13) == 0 {
                *byte = b' ';
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn model() -> Model {
        Model {
            seed: 0,
            base_time_ms: 1_436_918_400_000,
            rate: 10_000,
            persons: 1,
            auctions: 3,
            bids: 46,
            hot_auction_ratio: 2,
            hot_bidder_ratio: 4,
            hot_seller_ratio: 4,
            person_bytes: 200,
            auction_bytes: 500,
            bid_bytes: 100,
        }
    }

    #[test]
    fn proportions_and_ids_follow_the_number_of_the_event() {
        let m = model();
        let kinds: Vec<EventKind> = (0..50).map(|e| m.kind(e)).collect();
        assert_eq!(kinds[0], EventKind::Person);
        assert_eq!(kinds[1..4], [EventKind::Auction; 3]);
        assert!(kinds[4..].iter().all(|k| *k == EventKind::Bid));
        assert_eq!(m.number(EventKind::Person, 50, EventField::Id), 1001);
        assert_eq!(m.number(EventKind::Auction, 53, EventField::Id), 1005);
        assert_eq!(m.time_ms(20) - m.base_time_ms, 2);
    }

    #[test]
    fn bids_refer_to_auctions_and_persons_around_the_current_ones() {
        let m = model();
        for event in (4..50_000).filter(|&e| m.kind(e) == EventKind::Bid) {
            let auction = m.number(EventKind::Bid, event, EventField::Auction) as u64 - FIRST_ID;
            assert!(auction <= m.last_auction(event) + ID_LEAD);
            let bidder = m.number(EventKind::Bid, event, EventField::Bidder) as u64 - FIRST_ID;
            assert!(bidder <= m.last_person(event) + ID_LEAD);
            let price = m.number(EventKind::Bid, event, EventField::Price);
            assert!((100..=100_000_000).contains(&price));
        }
    }

    #[test]
    fn a_channel_keeps_its_url() {
        let m = model();
        let text = |event, field| {
            let mut out = Vec::new();
            m.text(EventKind::Bid, event, field, &mut out);
            String::from_utf8(out).expect("generated text is ASCII")
        };
        let mut urls = std::collections::HashMap::new();
        for event in 4..5000 {
            let url = text(event, EventField::Url);
            assert!(url.starts_with("https://www.nexmark.com/") && url.contains("item.htm?query=1"));
            let known = urls.entry(text(event, EventField::Channel)).or_insert_with(|| url.clone());
            assert_eq!(*known, url);
        }
    }
}
