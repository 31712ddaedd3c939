"""What the made tools are about: forty topics as data, out of which tools.py combines names and questions.

A slot's kind is a method of Words, or `one:a|b|c` for an enum, `int:low-high`, `yes:clause when true|clause when false`.
A slot with a clause is optional: the clause is added to the question when the value is given.
"""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slot:
    key: str
    kind: str
    names: str
    about: str
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """`do` completes "none of my tools can ...". Every answer quotes the result {r}, so that quoting is learned."""

    do: str
    verbs: str
    nouns: str
    about: tuple[str, ...]
    slots: tuple[Slot, ...]
    asks: tuple[str, ...]
    results: tuple[str, ...]
    answers: tuple[str, ...] = ("{r}.", "Done: {r}.")


def S(text: str, clause: str = "") -> Slot:
    """'key kind | names | about' in one line."""
    head, names, about = (part.strip() for part in text.split(" / "))
    key, _, kind = head.partition(" ")
    return Slot(key, kind, names, about, clause)


def T(do, verbs, nouns, about, slots, asks, results, answers=("{r}.", "The tool says: {r}.")) -> Topic:
    return Topic(do, verbs, nouns, tuple(about.split(" / ")), tuple(slots), tuple(asks.split(" / ")),
                 tuple(results.split(" / ")), tuple(answers))  # fmt: skip


UNIT = S("unit one:celsius|fahrenheit / unit units scale / Unit of the temperature", " in {v}")
LANG = "one:french|german|spanish|italian|dutch|polish|japanese"

TOPICS = [
    T("check the weather", "get check fetch", "weather forecast", "Current weather for a city. / Tells the weather in a place.",
      [S("city city / city location place town / Name of the city"), UNIT],
      "What is the weather in {city}? / How is the weather in {city}? / What's the weather like in {city}? / Is it raining in {city}? / weather in {city} / Tell me the weather in {city}.",
      "{d}F and raining / {d}F and sunny / {d} degrees, cloudy / {d}C and windy / snow, {d}F / clear sky, {d} degrees / {d}F and foggy",
      ("The weather in {city} is {r}.", "It is {r} in {city}.")),
    T("tell the time", "get tell show", "time clock", "Current time in a city. / Tells what time it is somewhere.",
      [S("city city / city place zone location / The city to ask for"), S("day_clock yes: in 24 hour form| in 12 hour form / full military / 24 hour form", "{v}")],
      "What time is it in {city}? / Tell me the time in {city}. / time in {city} / What is the local time in {city}?",
      "{time} / {time} local time", ("It is {r} in {city}.", "The time in {city} is {r}.")),
    T("set an alarm", "set create add", "alarm wakeup", "Sets an alarm. / Wakes the user at a time.",
      [S("time time / time at hour / When it rings"), S("loud yes: loudly| quietly / loud noisy / Whether it is loud", "{v}")],
      "Set an alarm for {time}. / Wake me at {time}. / alarm at {time} / I need an alarm at {time}.",
      "alarm set for {time} / rings at {time}"),
    T("set a timer", "start set run", "timer countdown", "Starts a timer. / Counts down some minutes.",
      [S("minutes int:1-120 / minutes duration length / Minutes to run"), S("label word / label title / What it is for", " called {v}")],
      "Start a timer for {minutes} minutes. / Set a {minutes} minute timer. / timer {minutes} minutes / Count down {minutes} minutes.",
      "timer {code} started / {minutes} minutes running"),
    T("send a mail", "send write mail", "email message letter", "Sends an email. / Writes a mail to someone.",
      [S("to email / to address recipient / Address of the receiver"), S("subject phrase / subject title topic / Subject line")],
      'Send an email to {to} with the subject "{subject}". / Mail {to} about "{subject}". / Write to {to}, subject "{subject}".',
      "sent to {to} / mail {code} sent"),
    T("send a text message", "send text post", "sms text note", "Sends a text message to a person. / Texts somebody.",
      [S("person name / person name contact who / Who gets it"), S("text phrase / text body message content / What to say")],
      'Text {person}: "{text}". / Send {person} a text saying "{text}". / Tell {person} "{text}" by text message.',
      "delivered to {person} / message {code} delivered"),
    T("look up stock prices", "get fetch look_up", "stock price quote", "Price of a stock. / Looks up a share by its symbol.",
      [S("symbol code / symbol ticker code / Symbol of the share"), S("currency one:usd|eur|gbp|jpy / currency money / Currency of the price", " in {v}")],
      "What is the stock price of {symbol}? / How much is a share of {symbol}? / price of {symbol} stock / Get me the quote for {symbol}.",
      "{x} dollars / {x} euros, up {d} percent / {x}, down {d} percent", ("{symbol} is at {r}.", "The price of {symbol} is {r}.")),
    T("convert money", "convert change exchange", "currency money", "Converts money from one currency to another. / Exchange between currencies.",
      [S("amount int:1-9999 / amount sum value / How much"), S("source one:usd|eur|gbp|chf / source from base / Currency to change"), S("target one:jpy|inr|cad|aud / target into wanted / Currency wanted")],
      "Convert {amount} {source} to {target}. / How much is {amount} {source} in {target}? / change {amount} {source} into {target}",
      "{x} {target} / {x}", ("{amount} {source} is {r}.", "That makes {r}.")),
    T("translate text", "translate render turn", "text phrase words", "Translates a text into another language. / Gives the text in another language.",
      [S("text phrase / text phrase input / The text"), S(f"language {LANG} / language target lang / Language wanted")],
      'Translate "{text}" into {language}. / How do you say "{text}" in {language}? / Put "{text}" in {language}.',
      "{word} {word} / {Word} {word}", ('In {language} it is "{r}".', "{r}.")),
    T("search the web", "search look_up find", "web pages internet", "Searches the web. / Finds pages on the internet.",
      [S("query phrase / query q words search / What to look for"), S("limit int:1-50 / limit count max_results top / How many results", ", {v} results")],
      'Search the web for "{query}". / Look up "{query}" online. / Find pages about "{query}". / google "{query}"',
      "{d} pages, best: {Word} {word} / found {d} pages"),
    T("play music", "play start put_on", "music song track", "Plays a song. / Puts on music by an artist.",
      [S("artist person / artist singer band / Who sings"), S("volume int:1-100 / volume level / How loud", " at volume {v}"), S("shuffle yes: with shuffle| without shuffle / shuffle mix / Mixed order", "{v}")],
      "Play something by {artist}. / Play music by {artist}. / put on {artist} / I want to hear {artist}.",
      "now playing {Word} by {artist} / playing {Word}"),
    T("switch lights", "set switch turn", "light lamp lights", "Switches the light in a room. / Turns a lamp on or off.",
      [S("room one:kitchen|bedroom|hall|garage|garden|office / room area where / Which room"), S("on yes: on| off / on state active / On or off")],
      "Turn the light in the {room}{on}. / Switch the {room} light{on}. / Put the lamp in the {room}{on}.",
      "{room} light changed / done, {d} lamps"),
    T("set the heating", "set change adjust", "heating thermostat temperature", "Sets the heating of a room. / Adjusts the thermostat.",
      [S("degrees int:10-30 / degrees temperature target / Wanted degrees"), S("room one:kitchen|bedroom|hall|garage|office / room zone / Which room", " in the {v}")],
      "Set the heating to {degrees} degrees. / Heat to {degrees} degrees. / thermostat to {degrees}",
      "heating at {degrees} / now {degrees} degrees"),
    T("book a flight", "book find reserve", "flight plane trip", "Books a flight between two cities. / Finds a plane.",
      [S("start city / origin start departure from_city / Where it starts"), S("end city / destination goal arrival to_city / Where it goes"), S("direct yes: without stops| with stops / direct nonstop / Only without stops", "{v}")],
      "Book a flight from {start} to {end}. / I need a plane from {start} to {end}. / Fly me from {start} to {end}.",
      "flight {code} for {x} / {code} at {time}", ("Your flight: {r}.", "{r}.")),
    T("book a hotel", "book reserve find", "hotel room stay", "Books a hotel room. / Reserves a room in a city.",
      [S("city city / city place town / Where to stay"), S("nights int:1-30 / nights days length / How many nights"), S("breakfast yes: with breakfast| without breakfast / breakfast meals / Breakfast included", "{v}")],
      "Book a hotel in {city} for {nights} nights. / I need a room in {city} for {nights} nights. / hotel in {city}, {nights} nights",
      "room {code}, {x} a night / Hotel {Word}, {x}", ("Booked: {r}.", "{r}.")),
    T("reserve a table", "book reserve get", "table restaurant dinner", "Reserves a table in a restaurant. / Books dinner.",
      [S("place name / restaurant place venue / Name of the restaurant"), S("people int:1-20 / people guests persons party / How many people"), S("time time / time hour at / When", " at {v}")],
      "Reserve a table for {people} at {place}. / Book dinner at {place} for {people} people. / table for {people} at {place}",
      "table {d} reserved / confirmed, {code}"),
    T("add a calendar entry", "add create schedule", "event meeting appointment", "Adds an event to the calendar. / Schedules a meeting.",
      [S("title phrase / title name subject / Title of the event"), S("date date / date day when / Day, as YYYY-MM-DD"), S("guests list:name / guests people attendees / Who comes", " with {v}")],
      'Add "{title}" to my calendar on {date}. / Schedule "{title}" for {date}. / Put "{title}" on {date}.',
      "event {code} added / added on {date}"),
    T("read the calendar", "list show read", "events agenda calendar", "Lists the events of a day. / Shows what is planned.",
      [S("date date / date day on / Day, as YYYY-MM-DD")],
      "What is planned on {date}? / Show my events on {date}. / What do I have on {date}? / agenda for {date}",
      "{Word} at {time} / {d} events, first at {time}", ("On {date}: {r}.", "You have {r}.")),
    T("create a task", "add create make", "task todo reminder", "Adds a task to the list. / Reminds the user of something.",
      [S("text phrase / text task title what / What to do"), S("priority one:low|normal|high / priority importance / How important", " with {v} priority")],
      'Remind me: "{text}". / Add "{text}" to my tasks. / Make a task "{text}". / todo "{text}"',
      "task {code} added / saved as {code}"),
    T("buy groceries", "order add buy", "shopping groceries basket", "Puts things on the shopping list. / Adds items to the basket.",
      [S("items list:word / items things goods / What to buy")],
      "Put {items} on the shopping list. / Order {items}. / We need {items} from the shop. / buy {items}",
      "{d} things in the basket / basket {code}, {x}"),
    T("calculate", "calculate compute evaluate", "expression math result", "Calculates an expression. / Does arithmetic.",
      [S("expression sum / expression formula input / The expression")],
      "Calculate {expression}. / What is {expression}? Use the calculator. / compute {expression} / How much is {expression}?",
      "{x} / {i}", ("{expression} is {r}.", "The result is {r}.")),
    T("read files", "read open load", "file document text", "Reads a file. / Returns what a file holds.",
      [S("path path / path file filename / Path of the file"), S("lines int:1-500 / lines limit max_lines / How many lines", ", {v} lines")],
      "Read the file {path}. / What is in {path}? / open {path} / Show me {path}.",
      "{word} {word} {word} / {d} lines: {word} {word}", ("The file says: {r}.", "{path} holds: {r}.")),
    T("write files", "write save store", "file document note", "Writes text to a file. / Saves a text under a path.",
      [S("path path / path file target / Path of the file"), S("content phrase / content text body data / What to write")],
      'Write "{content}" to {path}. / Save "{content}" in {path}. / Put "{content}" into the file {path}.',
      "{d} bytes written / saved {path}"),
    T("delete files", "delete remove erase", "file document path", "Deletes a file. / Removes a file for good.",
      [S("path path / path file target / Path of the file")],
      "Delete {path}. / Remove the file {path}. / erase {path}",
      "{path} deleted / removed, {d} bytes free"),
    T("run commands", "run execute start", "command shell program", "Runs a shell command. / Executes a program.",
      [S("command cmd / command cmd line / The command line"), S("timeout int:1-600 / timeout seconds limit / Seconds to wait", " with {v} seconds limit")],
      "Run `{command}`. / Execute `{command}`. / Run the command `{command}`.",
      "exit {d} / {word} {word}", ("The command printed: {r}.", "{r}.")),
    T("look up people", "find get look_up", "person contact employee", "Finds a person in the address book. / Looks up a contact.",
      [S("name person / name who person / Name of the person")],
      "Find {name} in the address book. / What is the phone number of {name}? / Look up {name}. / contact {name}",
      "{name}, phone {i} / {i}", ("{name}: {r}.", "I found {r}.")),
    T("track parcels", "track find check", "parcel package shipment", "Tells where a parcel is. / Tracks a package by its number.",
      [S("number code / number code tracking_id / Number of the parcel")],
      "Where is my parcel {number}? / Track package {number}. / parcel {number} / Has {number} been delivered?",
      "in {city} / delivered at {time} / leaves {city} at {time}", ("Parcel {number}: {r}.", "It is {r}.")),
    T("check orders", "get check show", "order purchase status", "Status of an order. / Tells how far an order is.",
      [S("order code / order_id order id / Number of the order")],
      "What is the status of order {order}? / How far is order {order}? / order {order} status / Check my order {order}.",
      "shipped on {date} / waiting for payment / packed, {d} items", ("Order {order}: {r}.", "The status is {r}.")),
    T("find a route", "get plan find", "route directions way", "Finds the way between two places. / Plans a route.",
      [S("start city / start origin from_place / Where it starts"), S("end city / end goal to_place / Where it ends"), S("mode one:car|bike|train|foot / mode by vehicle / How to travel", " by {v}")],
      "How do I get from {start} to {end}? / Show the way from {start} to {end}. / route from {start} to {end}",
      "{d} km, {i} minutes / {d} km", ("The way is {r}.", "From {start} to {end}: {r}.")),
    T("read the news", "get read fetch", "news headlines", "Latest news about a subject. / Reads the headlines.",
      [S("topic word / topic subject about / What about"), S("count int:1-20 / count number limit / How many", ", {v} headlines")],
      "What is the news about {topic}? / Any headlines on {topic}? / news on {topic} / Give me the latest news about {topic}.",
      "{Word} {word} {word} / {d} stories, first: {Word} {word}", ("The news: {r}.", "{r}.")),
    T("find recipes", "find get suggest", "recipe dish meal", "Finds a recipe. / Suggests what to cook.",
      [S("dish word / dish food meal / What to cook"), S("vegan yes: that is vegan| with meat / vegan plant_based / Only plants", "{v}")],
      "Find a recipe for {dish}. / How do I cook {dish}? / recipe for {dish}",
      "{Word} with {word} / cook {d} minutes", ("Try this: {r}.", "{r}.")),
    T("roll dice", "roll throw toss", "dice die number", "Rolls dice. / Gives a random number.",
      [S("sides int:2-100 / sides faces maximum / Sides of the die"), S("count int:1-10 / count dice times / How many dice", " {v} times")],
      "Roll a die with {sides} sides. / Throw a {sides} sided die. / roll d{sides}",
      "{d}", ("You rolled {r}.", "It shows {r}.")),
    T("query the database", "query run select", "database table records", "Counts records in a table. / Queries the database.",
      [S("table word / table name source / Name of the table"), S("filter phrase / filter where condition / Condition", ' where "{v}"')],
      "How many records are in the table {table}? / Query the table {table}. / count rows of {table}",
      "{i} rows / {i} records", ("There are {r}.", "The table has {r}.")),
    T("call someone", "call phone dial", "person contact number", "Calls a person on the phone. / Dials a contact.",
      [S("person name / person contact who name / Whom to call"), S("video yes: with video| without video / video camera / With video", "{v}")],
      "Call {person}. / Phone {person}. / Ring {person} please.",
      "{person} answered / no answer after {d} seconds"),
    T("send money", "send transfer pay", "money payment", "Sends money to a person. / Transfers an amount.",
      [S("amount decimal / amount sum value / How much"), S("to name / to receiver person recipient / Who gets it")],
      "Send {amount} dollars to {to}. / Pay {to} {amount} dollars. / Transfer {amount} to {to}.",
      "payment {code} made / {amount} sent, fee {x}"),
    T("add numbers", "add sum plus", "numbers values", "Adds two numbers. / The sum of two numbers.",
      [S("first int:0-9999 / a x first left / The first number"), S("second int:0-9999 / b y second right / The second number")],
      "Add {first} and {second}. / What is {first} plus {second}? Use the tool. / sum of {first} and {second}",
      "{i}", ("The sum is {r}.", "{first} plus {second} is {r}.")),
    T("define words", "define explain look_up", "word dictionary meaning", "Explains a word. / Looks a word up in the dictionary.",
      [S("word word / word term text / The word")],
      "What does {word} mean? Use the dictionary. / Define {word}. / Look up the word {word}.",
      "a kind of {word} / {word} {word}", ("It means: {r}.", "{r}.")),
    T("count inhabitants", "get find fetch", "population people inhabitants", "Population of a city. / How many people live somewhere.",
      [S("city city / city place town / Name of the city")],
      "How many people live in {city}? / What is the population of {city}? / population of {city}",
      "{i} / {i} people", ("{r} live in {city}.", "The population of {city} is {r}.")),
    T("show the balance", "get show check", "balance account", "Shows the balance of the account. / How much money there is.",
      [], "How much money do I have? / What is my balance? / Show my account balance.",
      "{x} dollars / {x}", ("Your balance is {r}.", "You have {r}.")),
    T("check the server", "get check show", "status server health", "Status of the server. / Tells whether the server is well.",
      [], "Is the server up? / What is the server status? / Check the server.",
      "up for {d} days / running, load {d} / down since {time}", ("The server: {r}.", "Status: {r}.")),
    T("list files", "list show get", "files directory folder", "Lists the files in a folder. / Shows what a directory holds.",
      [S("folder path / folder path directory / The folder", " in {v}")],
      "List the files. / Which files are there? / Show the files.",
      "{path} and {path} / {d} files", ("Files: {r}.", "There: {r}.")),
]  # fmt: skip
