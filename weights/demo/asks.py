"""The ways to ask: question templates of chats.py, by kind of conversation."""

# ruff: noqa: E501

ASKS = {
    "count to": ["count to {b}", "count from 1 to {b}.", "count up to {b}.", "Count from 1 to {b}.", "Count to {b}."],
    "count down": ["count down from {a} to {b}.", "count backwards from {a} to {b}.", "count back from {a} to {b}"],
    "count up": ["count from {a} to {b}.", "count from {a} up to {b}.", "count {a} to {b}", "list the numbers from {a} to {b}.", "numbers from {a} to {b}"],
    "river": ["name one river in {}.", "name a river in {}.", "which river flows through {}?", "tell me a river in {}.", "give me one river of {}."],
    "capital of what": ["{} is the capital of what?", "Which place has the capital {}?"],
    "capital": ["what is the capital of {}?", "what's the capital of {}?", "capital of {}?", "which city is the capital of {}?", "name the capital of {}."],
    "repeat": ["say {}", "Say {}", "repeat after me: {}", "repeat: {}", 'say "{}"', 'repeat "{}"', "Say: {}", "Just say {}", "echo {}", 'Reply with "{}"', "Say {} and nothing else.", "Reply with exactly: {}", "write {}"],
    "spell": ["spell {}.", "spell the word {}.", 'how do you spell "{}"?', "spell {} letter by letter."],
    "sum": ["what is {}?", "how much is {}?", "{}", "{} = ?", "calculate {}."],
    "prime": ["is {} prime?", "is {} a prime number?", "Is {} prime?", "is {} prime or not?", "check if {} is prime."],
    "list": ["list {} {}", "name {} {}", "give me {} {}", "tell me {} {}", "what are {} {}?"],
    "opposite": ["what is the opposite of {}?", "opposite of {}?", "the opposite of {} is what?"],
    "french": ["what is {} in French?", "how do you say {} in French?", "translate {} to French", "translate '{}' into French."],
    "following": ["what {t} comes {s} {x}?", "which {t} is {s} {x}?"],
    "larger": ["which is {h}, {a} or {b}?", "what is {h}: {a} or {b}?"],
    "ends": ['what is the {s} word of "{t}"?', 'tell me the {s} word in "{t}".'],
    "extract": ["give {k} as JSON: {t}", "extract {k} as JSON. {t}", "{t} Give {k} as JSON.", "JSON with {k}: {t}"],
    "untold": ["what is my {}?", "do you know my {}?", "what's my {}?", "tell me my {}."],
    "one word": ["Answer with one word.", "Answer in one word.", "Use one word only.", "Reply with a single word."],
    "json": ["Answer in JSON.", "Answer with JSON only.", "Reply in JSON only.", "JSON only.", "Always answer in JSON."],
    "greet in french": ["Greet in French.", "Start with a French greeting.", "Always greet the user in French.", "Begin every answer with Bonjour."],
    "persona": ["Your name is {}.", "You are {}.", "You are called {}.", "You are {}, a helpful assistant."],
    "who": ["Who are you?", "What is your name?", "who are you", "what's your name?"],
    "introduction": ["My name is {}.", "I am {}.", "Hi, I'm {}.", "Call me {}.", "Hello, my name is {}."],
}  # fmt: skip

# What is told, what is asked later, and the answer.
MEMORIES = {
    "name": (
        [
            "My name is {value}.",
            "I am {value}.",
            "Hi, I'm {value}.",
            "my name is {value}",
            "Call me {value}.",
        ],
        ["What is my name?", "Who am I?", "what's my name?", "Do you know my name?"],
        "Your name is {value}.",
    ),
    "city": (
        ["I live in {value}.", "My city is {value}."],
        ["Where do I live?", "What is my city?"],
        "You live in {value}.",
    ),
    "dog": (
        ["My dog is called {value}.", "I have a dog named {value}."],
        ["What is my dog called?", "What is the name of my dog?"],
        "Your dog is called {value}.",
    ),
    "": (
        ["My {what} is {value}.", "Remember: my {what} is {value}."],
        ["What is my {what}?", "Do you know my {what}?"],
        "Your {what} is {value}.",
    ),
}
