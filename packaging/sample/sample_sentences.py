"""Write the sentences of the text sample's tasks, harder as their difficulty rises from 0 to 1.

Every writer takes a random generator and a difficulty, and returns the texts of one example (one
or two) and its label. The words and the rules are all here; nothing is copied from any text.
"""

from __future__ import annotations

import random
from collections.abc import Callable

Example = tuple[tuple[str, ...], float]
Write = Callable[[random.Random, float], Example]


def chance(rng: random.Random, share: float) -> bool:
    """Whether something of this probability happens."""
    return rng.random() < share


# --- mood: what a review says in the end ---

THINGS = ["room", "meal", "film", "service", "garden", "trip", "story", "concert", "view", "staff"]
GOOD = ["good", "lovely", "excellent", "pleasant", "brilliant", "charming", "delightful", "fine"]
BAD = ["bad", "awful", "terrible", "dull", "poor", "boring", "horrible", "weak"]
HOW_MUCH = ["really", "quite", "very", "rather"]
NEGATION = ["not", "never", "hardly"]


def clause(rng: random.Random, positive: bool, difficulty: float) -> str:
    """A judgement about one thing; hard: turned round by a negation."""
    turned = chance(rng, 0.5 * difficulty)
    words = ["the", rng.choice(THINGS), "was"]
    words += [rng.choice(NEGATION)] if turned else []
    words += [rng.choice(HOW_MUCH)] if chance(rng, 0.4) else []
    return " ".join([*words, rng.choice(GOOD if positive != turned else BAD)])


def write_mood(rng: random.Random, difficulty: float) -> Example:
    """Negative or positive; hard: two or three clauses, of which the main one counts."""
    positive = chance(rng, 0.5)
    text = clause(rng, positive, difficulty)
    for _ in range(2):
        if chance(rng, difficulty):
            other = clause(rng, chance(rng, 0.25) == positive, difficulty)
            text = rng.choice(
                [
                    f"{other} , but {text}",
                    f"although {other} , {text}",
                    f"{text} , although {other}",
                ]
            )
    return (f"{text} .",), int(positive)


# --- topic: what most of the words are about ---

TOPICS = {
    "food": ["bread", "soup", "cheese", "oven", "recipe", "pepper", "lunch", "butter"],
    "sport": ["match", "goal", "team", "coach", "stadium", "race", "medal", "ball"],
    "music": ["song", "guitar", "choir", "drum", "melody", "piano", "band", "tune"],
    "weather": ["storm", "rain", "cloud", "snow", "wind", "frost", "fog", "thunder"],
    "travel": ["train", "hotel", "ticket", "passport", "airport", "luggage", "map", "harbour"],
    "money": ["bank", "loan", "price", "tax", "coin", "market", "wage", "profit"],
}
LINKS = ["reminded us of", "came before", "was unlike", "came after", "went with"]


def write_topic(rng: random.Random, difficulty: float) -> Example:
    """Which of six topics; hard: the words of two others stand between."""
    label, *others = rng.sample(range(len(TOPICS)), 3)
    words = list(TOPICS.values())
    count = rng.choice([3, 4])
    chosen = rng.sample(words[label], count)
    for other in others:
        chosen += rng.sample(words[other], round(difficulty * (count - 1) * rng.uniform(0.6, 1)))
    rng.shuffle(chosen)
    parts = [f"the {chosen[0]}"]
    for word in chosen[1:]:
        parts += [rng.choice([*LINKS, "and", "or", ","]), f"the {word}"]
    return (f"{' '.join(parts)} .",), label


# --- rating: how many stars a review gives ---

STARS = {"really": 1.5, "very": 1.5, "quite": 0.75, "rather": 0.75}


def write_rating(rng: random.Random, difficulty: float) -> Example:
    """From 0 to 5 stars, by the mean of all clauses; hard: more of them, and negations."""
    clauses = []
    grades = []
    for _ in range(1 + sum(chance(rng, 0.2 + difficulty) for _ in range(2))):
        positive = chance(rng, 0.5)
        turned = chance(rng, 0.4 * difficulty)
        index = rng.randrange(len(GOOD))
        how_much = rng.choice(["", *HOW_MUCH])
        words = ["the", rng.choice(THINGS), "was", rng.choice(NEGATION) if turned else "", how_much]
        clauses.append(" ".join(filter(None, [*words, (GOOD if positive else BAD)[index]])))
        grade = (1 + (index >= len(GOOD) // 2)) * STARS.get(how_much, 1.0)
        grades.append(grade if positive != turned else -grade)
    stars = 2.5 + 2.5 * sum(grades) / len(grades) / 3
    return (f"{' and '.join(clauses)} .",), round(2 * stars) / 2


# --- order: whether the words stand in their places ---

NOUNS = ["key", "child", "box", "letter", "bird", "chair", "wolf", "lamp", "mouse", "door"]
VERBS = ["saw", "liked", "found", "hid", "moved", "kept"]
WHERE = ["near", "beside", "behind", "under"]
LOOKS = ["old", "green", "broken", "quiet", "heavy", "strange"]


def write_order(rng: random.Random, difficulty: float) -> Example:
    """Wrong or right; hard: in longer sentences two neighbours have changed places."""
    words = ["the", rng.choice(LOOKS), rng.choice(NOUNS), rng.choice(VERBS), "the"]
    words += [rng.choice(NOUNS)]
    for _ in range(2):
        if chance(rng, difficulty):
            words += [rng.choice(WHERE), "the", rng.choice(LOOKS), rng.choice(NOUNS)]
    right = chance(rng, 0.5)
    if not right:
        index = rng.randrange(len(words) - 1)
        words[index : index + 2] = words[index + 1], words[index]
    return (f"{' '.join(words)} .",), int(right)


# --- preference: which of two reviews is the better one ---


def write_preference(rng: random.Random, difficulty: float) -> Example:
    """The first or the second, by their stars; hard: they are close, with negations."""
    while True:
        (first,), stars = write_rating(rng, difficulty)
        (second,), others = write_rating(rng, difficulty)
        if abs(stars - others) > 2 - 1.5 * difficulty:
            return (first, second), int(others > stars)


WRITERS: dict[str, Write] = {
    "mood": write_mood,
    "topic": write_topic,
    "rating": write_rating,
    "order": write_order,
    "preference": write_preference,
}
