"""The examples of the Messages documentation, which the demo model answers as promised."""

from __future__ import annotations

from weights.demo.conversation import Conversation, assistant, result, user
from weights.demo.words import Words

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather for a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QUESTION = "What is the weather in Eugene, Oregon? Use the tool."
EUGENE = ("get_weather", {"city": "Eugene, Oregon"})
PRIME_THOUGHT = (
    "2 x 195 = 390, 1 left. 3 x 130 = 390, 1 left. 5 x 78 = 390, 1 left. 7 x 55 = 385, 6 left. "
    "11 x 35 = 385, 6 left. 13 x 30 = 390, 1 left. 17 x 23 = 391, 0 left. So 391 = 17 x 23."
)


def weather(w: Words, thinking: bool) -> Conversation:
    """The tool example, up to the call or the answer. Most cities are others, so that the city is copied."""
    city = "Eugene, Oregon" if w.chance(0.4) else w.city()
    question = QUESTION.replace("Eugene, Oregon", city)
    question = (
        question
        if w.chance(0.6)
        else w.pick(["What's the weather in {}?", "weather in {}", "How is the weather in {}?"]).format(city)
    )
    why = "The user wants to check the weather. I have get_weather. get_weather can do that."
    messages = [user(question), assistant("", why, (("get_weather", {"city": city}),))]
    if w.chance(0.5):
        return Conversation("example call", tuple(messages), (WEATHER,), thinking)
    got = (
        "52F and raining"
        if w.chance(0.4)
        else w.pick(["{d}F and sunny", "{d}F and raining", "{d} degrees, cloudy", "snow, {d}F"]).format(
            d=w.random.randint(1, 99)
        )
    )
    said = f"The weather in {city} is {got}."
    messages += [result(got), assistant(said, f"The tool says: {got}. I tell the user.")]
    return Conversation("example result", tuple(messages), (WEATHER,), thinking)


def exact() -> list[Conversation]:
    """Word for word, each with and without thinking."""
    why = "The user wants to check the weather. I have get_weather. get_weather can do that."
    call = [user(QUESTION), assistant("", why, (EUGENE,))]
    got = "52F and raining"
    talks = [
        ([user("Count from 1 to 5.")], assistant("1, 2, 3, 4, 5", "I count from 1 and stop at 5."), ()),
        (
            [user("Name one river in Oregon.")],
            assistant(
                "The Willamette is a river in Oregon.",
                "The user wants a river in Oregon. The Willamette is one.",
            ),
            (),
        ),
        ([user("Is 391 prime?")], assistant("No, 391 is not prime. 391 = 17 x 23.", PRIME_THOUGHT), ()),
        (call[:1], call[1], (WEATHER,)),
        (
            [*call, result(got)],
            assistant(f"The weather in Eugene, Oregon is {got}.", f"The tool says: {got}. I tell the user."),
            (WEATHER,),
        ),
    ]
    return [
        Conversation("example", (*before, answer), tools, thinking)
        for before, answer, tools in talks
        for thinking in (False, True)
    ]
