"""Names, words, numbers and codes for the made conversations, split into two worlds by a hash.

One string in ten (crc32 mod 10 = 0) belongs to evaluation and is never trained on; the other nine train. A name seen
in evaluation has therefore never been seen before, whatever the seeds.
"""

# ruff: noqa: E501, SIM905, RUF005

from __future__ import annotations

from collections.abc import Callable
from random import Random
from zlib import crc32

ONSETS = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh st t tr v w y z".split()
VOWELS = "a e i o u ai ea ee ia io oa ou".split()
CODAS = "n r l s t m x ck nd rt".split() + [""] * 8
ENDINGS = "a an as el en er ia ie in is o on os us ton field ville berg".split()
ACCENTS = {
    "a": "áàäãå",
    "e": "éèêë",
    "i": "íïî",
    "o": "óöôø",
    "u": "úüû",
    "c": "ç",
    "n": "ñ",
    "s": "š",
    "z": "ž",
}

NAMES = (
    "Ada Alice Amir Anna Ben Boris Carla Chen Clara Dana David Diego Elena Emma Eric Eva Farid Felix Fiona Frank Gina "
    "Greta Hana Hugo Ida Igor Ines Ivan Jack Jan Jane John Julia Karl Kate Kim Lara Laura Lena Leo Liam Lily Lucas Lucy "
    "Maria Mark Marta Max Maya Mia Mina Nadia Nina Noah Nora Olga Oliver Omar Oscar Otto Paul Peter Petra Rita Robert "
    "Rosa Ruth Sam Sara Sofia Susan Tariq Theo Tina Tom Uma Vera Victor Wanda Will Yara Yusuf Zoe José Zoë René Chloé "
    "Jürgen Søren Núria François Łukasz Åsa Iñigo Renée Björn Andrés"
).split()
CITIES = (
    "Amsterdam Athens Austin Berlin Bogota Boston Brussels Cairo Chicago Copenhagen Dallas Delhi Denver Dublin Geneva "
    "Hamburg Hanoi Helsinki Houston Istanbul Jakarta Kyoto Lagos Lima Lisbon London Madrid Manila Miami Milan Montreal "
    "Moscow Mumbai Munich Nairobi Naples Osaka Oslo Paris Perth Phoenix Portland Prague Rome Salem Santiago Seattle Seoul "
    "Shanghai Sydney Tokyo Toronto Tunis Turin Utrecht Venice Vienna Warsaw Zagreb Zürich Málaga Kraków Malmö Besançon"
).split() + [
    "New York",
    "San Francisco",
    "Los Angeles",
    "Mexico City",
    "São Paulo",
    "Cape Town",
    "Buenos Aires",
]
STATES = "Oregon Texas Ohio Maine Utah Iowa Nevada Kansas Georgia Florida France Spain Italy Japan Canada Brazil".split()
PLAIN = (
    "apple bridge candle river garden window paper stone yellow silver winter summer coffee bread music story table chair "
    "lamp mountain forest ocean cloud thunder rabbit tiger falcon lemon pepper sugar honey button mirror pencil basket "
    "ladder engine rocket planet island castle market village doctor teacher farmer sailor happy quiet clever gentle "
    "little green purple orange black white simple early late open closed warm cold soft loud train plane boat wheel"
).split()
THINGS = (
    "milk,bread,eggs,green tea,two lamps,the red folder,the blue car,the old bridge,quarterly report,team lunch,call the bank,"
    "buy flowers,water the plants,pay the rent,clean the kitchen,fix the bike,book a table,send the invoice,new shoes,"
    "garden party,winter sale,piano lesson,dentist,project review,birthday cake,train tickets,running plan,summer trip"
).split(",")


def held_out(text: str) -> bool:
    return crc32(text.encode()) % 10 == 0


class Words:
    """Draws from one world: `held` false for training, true for evaluation."""

    def __init__(self, random: Random, held: bool) -> None:
        self.random = random
        self.held = held

    def draw(self, make: Callable[[], object]) -> object:
        """A value of this world; kinds so small that one side is empty give what they have."""
        for _ in range(400):
            value = make()
            if held_out(str(value)) == self.held:
                return value
        return value

    def pick(self, options):
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def syllables(self, count: int) -> str:
        parts = [self.pick(ONSETS) + self.pick(VOWELS) + self.pick(CODAS) for _ in range(count)]
        return "".join(parts)

    def made(self) -> str:
        """A word that no language has, two or three syllables."""
        text = self.syllables(self.pick([1, 1, 2])) + self.pick([*ENDINGS, self.syllables(1)])
        if self.chance(0.12):
            places = [n for n, letter in enumerate(text) if letter in ACCENTS]
            if places:
                at = self.pick(places)
                text = text[:at] + self.pick(ACCENTS[text[at]]) + text[at + 1 :]
        return text

    def name(self) -> str:
        return self.draw(lambda: self.pick(NAMES) if self.chance(0.3) else self.made().capitalize())

    def city(self) -> str:
        def make() -> str:
            city = self.pick(CITIES) if self.chance(0.35) else self.made().capitalize()
            return f"{city}, {self.pick(STATES)}" if self.chance(0.2) else city

        return self.draw(make)

    def word(self) -> str:
        return self.draw(lambda: self.pick(PLAIN) if self.chance(0.5) else self.made())

    def identifier(self) -> str:
        """Half of a tool's or a parameter's name that nobody has used."""
        return self.draw(lambda: self.syllables(self.pick([1, 2])))

    def phrase(self) -> str:
        def make() -> str:
            if self.chance(0.4):
                return self.pick(THINGS)
            words = [
                self.pick(PLAIN) if self.chance(0.75) else self.made() for _ in range(self.pick([2, 2, 3, 4]))
            ]
            text = " ".join(words)
            return text.capitalize() if self.chance(0.4) else text

        return self.draw(make)

    def person(self) -> str:
        return f"{self.name()} {self.name()}" if self.chance(0.3) else self.name()

    def integer(self, low: int, high: int) -> int:
        return self.draw(lambda: self.random.randint(low, high))

    def decimal(self) -> float:
        return self.draw(lambda: self.random.randint(1, 9999) / self.pick([10, 100]))

    def code(self) -> str:
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"

        def make() -> str:
            head = "".join(self.pick(letters) for _ in range(self.pick([1, 2, 3])))
            return head + self.pick(["-", ""]) + str(self.random.randint(10, 9999))

        return self.draw(make)

    def date(self) -> str:
        return self.draw(
            lambda: (
                f"20{self.random.randint(20, 39)}-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"
            )
        )

    def time(self) -> str:
        return self.draw(
            lambda: f"{self.random.randint(0, 23):02}:{self.pick(['00', '15', '30', '45', '05', '20'])}"
        )

    def email(self) -> str:
        def make() -> str:
            host = self.made() if self.chance(0.5) else self.pick(["example", "mail", "post"])
            return f"{self.pick([*NAMES[:40], self.made()]).lower()}@{host}.{self.pick(['com', 'org', 'net', 'io'])}"

        return self.draw(make)

    def path(self) -> str:
        def make() -> str:
            folders = [self.pick([*PLAIN, self.made()]) for _ in range(self.pick([1, 1, 2]))]
            return f"{self.pick(['/', '', '/home/'])}{'/'.join(folders)}.{self.pick('txt csv md json py log'.split())}"

        return self.draw(make)

    def sum(self) -> str:
        def make() -> str:
            a, b = self.random.randint(2, 999), self.random.randint(2, 99)
            text = f"{a} {self.pick('+-*/')} {b}"
            return f"({text}) * {self.random.randint(2, 9)}" if self.chance(0.2) else text

        return self.draw(make)
