//! Which project a name means: the closest one, if it is close enough and stands out.

use std::cmp::Reverse;

/// A project that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Project {
    /// Its id at the gateway.
    pub id: String,
    /// Its name among people.
    pub name: String,
}

/// The projects that exist, and how sure a match must be.
///
/// An id, or a name that differs in capitals, blanks or punctuation only, is a match if it is the only one. Otherwise
/// names are compared by the pairs of neighbouring characters they share (Sørensen and Dice), from 0 to 1000, and
/// the closest is taken if it reaches `score_min` and leads by `margin_min`.
///
/// ```
/// use hapax_intake::intent::{Project, Projects, project::Match};
///
/// let project = |id: &str, name: &str| Project { id: id.into(), name: name.into() };
/// let projects = Projects::new(vec![project("p-1", "Kitchen Phase 1"), project("p-2", "Garden")]);
/// assert!(matches!(projects.find("kitchen phase"), Match::One(found) if found.id == "p-1"));
/// assert!(matches!(projects.find("roof"), Match::None(_)), "it is not guessed");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Projects {
    /// The projects.
    pub items: Vec<Project>,
    /// The least score of a match, of 1000.
    pub score_min: u32,
    /// How far the best must lead the second.
    pub margin_min: u32,
}

/// What a name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Match<'a> {
    /// This project.
    One(&'a Project),
    /// Several, the closest first.
    Many(Vec<&'a Project>),
    /// None that is close enough; those that come half as close, for people to look at.
    None(Vec<&'a Project>),
}

impl Projects {
    /// How many projects are offered in a question.
    pub const OFFERED_MAX: usize = 5;

    /// The projects with the usual thresholds: 700 of 1000, and a lead of 100.
    #[must_use]
    pub fn new(items: Vec<Project>) -> Self {
        Self {
            items,
            score_min: 700,
            margin_min: 100,
        }
    }

    /// The project that `text` means. The order of the list breaks ties, so the answer is always the same.
    #[must_use]
    pub fn find(&self, text: &str) -> Match<'_> {
        let asked = plain(text);
        let same: Vec<&Project> = match self.items.iter().find(|item| item.id == text) {
            Some(by_id) => vec![by_id],
            None => self
                .items
                .iter()
                .filter(|item| plain(&item.name) == asked)
                .take(Self::OFFERED_MAX)
                .collect(),
        };
        match same.as_slice() {
            [] => self.closest(&asked),
            [one] => Match::One(one),
            _ => Match::Many(same),
        }
    }

    fn closest(&self, asked: &str) -> Match<'_> {
        let asked = pairs(asked);
        let mut scored: Vec<(u32, &Project)> = self
            .items
            .iter()
            .map(|item| (score(&asked, &pairs(&plain(&item.name))), item))
            .filter(|(score, _)| *score > 0 && *score >= self.score_min / 2)
            .collect();
        scored.sort_by_key(|(score, _)| Reverse(*score));
        let leads = |best: u32| {
            scored
                .get(1)
                .is_none_or(|(second, _)| best - second >= self.margin_min)
        };
        match scored.first() {
            Some((best, one)) if *best >= self.score_min && leads(*best) => Match::One(one),
            Some((best, _)) if *best >= self.score_min => Match::Many(offered(&scored)),
            Some(_) | None => Match::None(offered(&scored)),
        }
    }
}

fn offered<'a>(scored: &[(u32, &'a Project)]) -> Vec<&'a Project> {
    let best = scored.iter().take(Projects::OFFERED_MAX);
    best.map(|(_, item)| *item).collect()
}

/// Letters and digits in lower case, with one space where anything else stood.
fn plain(text: &str) -> String {
    let letters: String = text
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .flat_map(char::to_lowercase)
        .collect();
    letters.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Neighbouring characters, sorted; a space before and after lets even one letter make pairs.
fn pairs(text: &str) -> Vec<(char, char)> {
    let spaced: Vec<char> = format!(" {text} ").chars().collect();
    let mut pairs: Vec<_> = spaced.windows(2).map(|two| (two[0], two[1])).collect();
    pairs.sort_unstable();
    pairs
}

/// Twice what both have over what each has, of 1000. Both are sorted.
fn score(one: &[(char, char)], other: &[(char, char)]) -> u32 {
    let (mut shared, mut left, mut right) = (0_u32, 0, 0);
    while let (Some(a), Some(b)) = (one.get(left), other.get(right)) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => left += 1,
            std::cmp::Ordering::Greater => right += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                left += 1;
                right += 1;
            }
        }
    }
    let all = u32::try_from(one.len() + other.len()).unwrap_or(u32::MAX);
    (shared.saturating_mul(2000)).checked_div(all).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projects(names: &[&str]) -> Projects {
        let item = |(place, name): (usize, &&str)| Project {
            id: format!("p-{place}"),
            name: (*name).to_owned(),
        };
        Projects::new(names.iter().enumerate().map(item).collect())
    }

    #[test]
    fn a_name_is_found_by_likeness_only_when_it_stands_out() {
        let all = projects(&["Kitchen Phase 1", "Kitchen Phase 2", "Garden", "Straße"]);
        for (asked, expected) in [
            ("KITCHEN  phase-1", "p-0"),
            ("p-2", "p-2"),
            ("gardens", "p-2"),
            ("straße", "p-3"),
        ] {
            assert!(
                matches!(all.find(asked), Match::One(found) if found.id == expected),
                "{asked}"
            );
        }
        assert!(
            matches!(all.find("kitchen phase"), Match::Many(some) if some.len() == 2 && some[0].id == "p-0")
        );
        assert!(matches!(all.find("boat"), Match::None(_)));
        assert!(matches!(all.find(""), Match::None(_)));
        assert!(matches!(projects(&[]).find("x"), Match::None(none) if none.is_empty()));
    }

    #[test]
    fn two_projects_of_one_name_are_not_chosen_between() {
        let all = projects(&["Garden", "garden!"]);
        assert!(matches!(all.find("garden"), Match::Many(some) if some.len() == 2));
        assert!(matches!(all.find("p-1"), Match::One(found) if found.id == "p-1"));
    }
}
