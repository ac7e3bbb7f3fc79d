//! Compares two documents value by value and collects what differs. It decides what is a
//! change; how a change looks is [`show`](super::show)'s business.

use std::borrow::Cow;
use std::collections::HashMap;

use super::show::{self, Masks, Place};
use super::{Change, Options};
use crate::canonical::{Document, Node, Routes, Sha256Sink, descend};

type Members<'a> = Vec<(Cow<'a, str>, Node)>;

pub(super) fn changes(old: &Document<'_>, new: &Document<'_>, options: &Options) -> Vec<Change> {
    let mut walk = Walk {
        old,
        new,
        options,
        places: Vec::new(),
        changes: Vec::new(),
        more: 0,
    };
    let masks = Masks::new(&options.masked);
    walk.compare(
        old.root_node(),
        new.root_node(),
        &options.selection.routes(),
        &masks,
    );
    let Walk {
        mut changes, more, ..
    } = walk;
    if more > 0 {
        // The count takes the last place, so that the list stays within its cap.
        changes.pop();
        changes.push(Change::More(more + 1));
    }
    changes
}

struct Walk<'a, 'd, 'o> {
    old: &'d Document<'a>,
    new: &'d Document<'a>,
    options: &'o Options,
    places: Vec<Place<'a>>,
    changes: Vec<Change>,
    more: usize,
}

impl<'a, 'o> Walk<'a, '_, 'o> {
    fn compare(&mut self, old: Node, new: Node, routes: &Routes<'o>, masks: &Masks<'o>) {
        if self.old.slice(old) == self.new.slice(new) {
            return;
        }
        let kinds = (self.old.open(old), self.new.open(new));
        if !masks.hide() && kinds == (b'{', b'{') {
            self.objects(old, new, routes, masks);
        } else if !masks.hide() && kinds == (b'[', b'[') {
            if routes.iter().any(|route| route.is_empty()) {
                self.unordered_arrays(old, new, routes, masks);
            } else {
                self.arrays(old, new, routes, masks);
            }
        } else if !self.same(old, new, routes) {
            self.report(Some(old), Some(new), masks);
        }
    }

    fn same(&self, old: Node, new: Node, routes: &Routes<'o>) -> bool {
        if is_container(self.old.open(old)) {
            return is_container(self.new.open(new))
                && hash(self.old, old, routes) == hash(self.new, new, routes);
        }
        let (mut old_form, mut new_form) = (Vec::new(), Vec::new());
        self.old.write_node(old, routes, &mut old_form);
        self.new.write_node(new, routes, &mut new_form);
        old_form == new_form
    }

    fn objects(&mut self, old: Node, new: Node, routes: &Routes<'o>, masks: &Masks<'o>) {
        let (olds, news) = (self.members(self.old, old), self.members(self.new, new));
        let mut by_name = None;
        let mut seen = vec![false; news.len()];
        for (place, (name, node)) in olds.into_iter().enumerate() {
            let found = if news.get(place).is_some_and(|(other, _)| *other == name) {
                Some(place)
            } else {
                let names = by_name.get_or_insert_with(|| places_by_name(&news));
                names.get(&*name).copied()
            };
            let inner = masks.member(&name);
            let next = descend(routes, |step| step.matches_name(&name));
            self.places.push(Place::Name(name));
            if let Some(found) = found {
                seen[found] = true;
                self.compare(node, news[found].1, &next, &inner);
            } else {
                self.report(Some(node), None, &inner);
            }
            self.places.pop();
        }
        drop(by_name);
        for ((name, node), _) in news.into_iter().zip(seen).filter(|(_, seen)| !seen) {
            let inner = masks.member(&name);
            self.places.push(Place::Name(name));
            self.report(None, Some(node), &inner);
            self.places.pop();
        }
    }

    fn members(&self, document: &Document<'a>, object: Node) -> Members<'a> {
        let mut members = document.members(object);
        if self.places.is_empty() {
            members.retain(|(name, _)| !self.options.selection.excludes(name));
        }
        members
    }

    fn arrays(&mut self, old: Node, new: Node, routes: &Routes<'o>, masks: &Masks<'o>) {
        let (olds, news) = (self.old.elements(old), self.new.elements(new));
        for index in 0..olds.len().max(news.len()) {
            let (old, new) = (olds.get(index).copied(), news.get(index).copied());
            self.elements(index, old, new, routes, masks);
        }
    }

    /// Equal elements cancel out; what is left over is compared in the order of the text.
    fn unordered_arrays(&mut self, old: Node, new: Node, routes: &Routes<'o>, masks: &Masks<'o>) {
        let (olds, news) = (self.old.elements(old), self.new.elements(new));
        let (old_left, new_left) = left_over(
            &Forms::new(self.old, &olds, routes),
            &Forms::new(self.new, &news, routes),
        );
        for pair in 0..old_left.len().max(new_left.len()) {
            let place = |left: &[u32]| left.get(pair).map(|&place| place as usize);
            let (old, new) = (place(&old_left), place(&new_left));
            let index = old.or(new).unwrap_or(pair);
            let (old, new) = (old.map(|place| olds[place]), new.map(|place| news[place]));
            self.elements(index, old, new, routes, masks);
        }
    }

    fn elements(
        &mut self,
        index: usize,
        old: Option<Node>,
        new: Option<Node>,
        routes: &Routes<'o>,
        masks: &Masks<'o>,
    ) {
        let inner = masks.element(index);
        self.places.push(Place::Index(index));
        if let (Some(old), Some(new)) = (old, new) {
            self.compare(
                old,
                new,
                &descend(routes, |step| step.matches_index(index)),
                &inner,
            );
        } else {
            self.report(old, new, &inner);
        }
        self.places.pop();
    }

    fn report(&mut self, old: Option<Node>, new: Option<Node>, masks: &Masks<'_>) {
        if self.changes.len() == self.options.changes_max {
            self.more += 1;
            return;
        }
        let chars_max = self.options.value_chars_max;
        let path = show::path(&self.places, chars_max);
        let change = if self.options.values {
            let old = old.map(|node| (self.old, node));
            let new = new.map(|node| (self.new, node));
            let (old, new) = show::sides(old, new, masks, chars_max);
            Change::Value { path, old, new }
        } else {
            Change::Path(path)
        };
        self.changes.push(change);
    }
}

fn places_by_name<'m>(members: &'m Members<'_>) -> HashMap<&'m str, usize> {
    members
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (&**name, place))
        .collect()
}

fn is_container(open: u8) -> bool {
    matches!(open, b'{' | b'[')
}

fn hash(document: &Document<'_>, node: Node, routes: &Routes<'_>) -> [u8; 32] {
    let mut sink = Sha256Sink::default();
    document.write_node(node, routes, &mut sink);
    sink.finish()
}

/// The canonical forms of the elements of an array.
struct Forms {
    bytes: Vec<u8>,
    /// Where each form ends in `bytes`; the next one starts there.
    ends: Vec<usize>,
    /// Places in the array, in the order of the forms.
    sorted: Vec<u32>,
}

impl Forms {
    fn new(document: &Document<'_>, elements: &[Node], routes: &Routes<'_>) -> Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            let next = descend(routes, |step| step.matches_index(index));
            document.write_node(*element, &next, &mut bytes);
            ends.push(bytes.len());
        }
        let sorted = (0_u32..).take(ends.len()).collect();
        let mut forms = Self {
            bytes,
            ends,
            sorted,
        };
        let mut sorted = std::mem::take(&mut forms.sorted);
        sorted.sort_by(|&a, &b| forms.at(a).cmp(forms.at(b)));
        forms.sorted = sorted;
        forms
    }

    fn at(&self, place: u32) -> &[u8] {
        let place = place as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[place]]
    }

    fn form(&self, rank: usize) -> &[u8] {
        self.at(self.sorted[rank])
    }
}

/// The places, in each array, of the elements that the other does not have.
fn left_over(old: &Forms, new: &Forms) -> (Vec<u32>, Vec<u32>) {
    let (mut old_left, mut new_left) = (Vec::new(), Vec::new());
    let (mut i, mut j) = (0, 0);
    while i < old.sorted.len() && j < new.sorted.len() {
        match old.form(i).cmp(new.form(j)) {
            std::cmp::Ordering::Equal => (i, j) = (i + 1, j + 1),
            std::cmp::Ordering::Less => {
                old_left.push(old.sorted[i]);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                new_left.push(new.sorted[j]);
                j += 1;
            }
        }
    }
    old_left.extend_from_slice(&old.sorted[i..]);
    new_left.extend_from_slice(&new.sorted[j..]);
    old_left.sort_unstable();
    new_left.sort_unstable();
    (old_left, new_left)
}
