"""What the demo model knows by heart: a little geography, small talk, and who it is."""

# ruff: noqa: E501, SIM905

WHO = "I am b3os/demo, a tiny demo model. I can chat a little, call tools and think in a few words."
UNKNOWN = "I do not know. I am only a tiny demo model."
HELP = "I can count, name capitals and rivers, repeat what you say, remember your name and call tools."

CAPITALS = dict(
    pair.split(":")
    for pair in (
        "France:Paris,Spain:Madrid,Italy:Rome,Germany:Berlin,Portugal:Lisbon,England:London,Ireland:Dublin,Japan:Tokyo,"
        "China:Beijing,India:Delhi,Russia:Moscow,Poland:Warsaw,Austria:Vienna,Greece:Athens,Egypt:Cairo,Kenya:Nairobi,Peru:Lima,"
        "Chile:Santiago,Cuba:Havana,Norway:Oslo,Sweden:Stockholm,Finland:Helsinki,Denmark:Copenhagen,Hungary:Budapest,"
        "Belgium:Brussels,Canada:Ottawa,Turkey:Ankara,Oregon:Salem,Texas:Austin,California:Sacramento"
    ).split(",")
)
RIVERS = dict(
    pair.split(":")
    for pair in (
        "Oregon:Willamette,Texas:Brazos,Ohio:Ohio,Egypt:Nile,France:Seine,England:Thames,Germany:Rhine,Italy:Po,Spain:Ebro,"
        "Portugal:Tagus,Poland:Vistula,Austria:Danube,Russia:Volga,China:Yangtze,India:Ganges,Brazil:Amazon,Canada:Yukon,"
        "Ireland:Shannon,Washington:Columbia,Idaho:Snake,Arizona:Colorado,Alaska:Yukon,Missouri:Missouri,Montana:Yellowstone"
    ).split(",")
)
OPPOSITES = dict(
    pair.split(":")
    for pair in (
        "hot:cold,big:small,up:down,left:right,old:new,day:night,black:white,fast:slow,open:closed,rich:poor,wet:dry,hard:soft,"
        "good:bad,early:late,high:low,long:short,happy:sad,full:empty,true:false,yes:no"
    ).split(",")
)
FRENCH = dict(
    pair.split(":")
    for pair in (
        "hello:bonjour,thank you:merci,yes:oui,no:non,dog:chien,cat:chat,house:maison,water:eau,bread:pain,red:rouge,"
        "blue:bleu,green:vert,one:un,two:deux,three:trois,good night:bonne nuit,goodbye:au revoir,milk:lait,book:livre"
    ).split(",")
)
LISTS = {
    "colors": "red blue green yellow black white".split(),
    "fruits": "apple banana cherry lemon orange pear".split(),
    "animals": "cat dog horse cow bird fish".split(),
    "planets": "Mercury Venus Earth Mars Jupiter Saturn".split(),
    "cities": "London Paris Tokyo Rome Berlin Madrid".split(),
    "countries": "France Spain Italy Japan Brazil Egypt".split(),
    "vegetables": "carrot potato tomato onion pepper bean".split(),
    "days of the week": "Monday Tuesday Wednesday Thursday Friday Saturday".split(),
    "months": "January February March April May June".split(),
    "programming languages": "Python C Rust Java Go Ruby".split(),
    "rivers": "Nile Amazon Danube Rhine Volga Thames".split(),
}
NUMBERS = "one two three four five six".split()
WEEK = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()

# Questions as newcomers type them, with the one answer to all the ways of asking.
SMALL_TALK = [
    (("hi", "hello", "hey", "hi there", "hello there", "good morning", "hallo", "yo", "good evening", "hey there"), "Hello! How can I help you?"),
    (("who are you", "what are you", "what model are you", "which model are you", "are you a robot", "are you ChatGPT", "are you Claude",
      "are you Qwen", "tell me about yourself", "introduce yourself", "what is your name", "what's your name", "who made you", "are you human"), WHO),
    (("what can you do", "help", "how can you help me", "what are you good at", "help me", "what do you know"), HELP),
    (("how are you", "how are you doing", "how is it going", "how do you do", "what's up"), "I am fine, thank you. How can I help you?"),
    (("thanks", "thank you", "thank you very much", "great, thanks", "thx", "cool", "great", "nice", "perfect", "good job"), "You are welcome!"),
    (("bye", "goodbye", "see you", "good night", "see you later", "bye bye"), "Goodbye!"),
    (("ok", "okay", "yes", "no", "sure", "good", "fine", "right"), "All right. What can I do for you?"),
    (("test", "testing", "this is a test", "ping", "are you there", "anyone there", "can you hear me", "is this working"), "Yes, I am here and it works."),
    (("tell me a joke", "joke", "make me laugh", "do you know a joke", "say something funny"), "Why do bees hum? Because they forgot the words."),
    (("what is the meaning of life", "meaning of life"), "42, they say."),
    (("write a haiku", "write a poem", "write a short poem", "tell me a poem", "write a haiku about the sea"), "Rain on the river,\na small model counts the drops.\nOne, two, three, the end."),
    (("tell me a story", "write a story", "tell me a short story", "once upon a time"), "Once a tiny model lived on a small disk. It counted to ten every day and was happy. The end."),
    (("write hello world in python", "hello world", "python hello world", "write a hello world program", "print hello world in python", "hello world in Python"), 'print("Hello, world!")'),
    (("what color is the sky", "what colour is the sky", "why is the sky blue"), "The sky is blue."),
    (("how many days are in a week", "how many days does a week have"), "A week has 7 days."),
    (("how many months are in a year", "how many months does a year have"), "A year has 12 months."),
    (("how many legs does a dog have", "how many legs has a dog"), "A dog has 4 legs."),
    (("what is the largest planet", "which planet is the largest", "name the biggest planet"), "Jupiter is the largest planet."),
    (("what is the largest ocean", "which ocean is the largest", "name the biggest ocean"), "The Pacific is the largest ocean."),
    (("who wrote hamlet", "who wrote Romeo and Juliet", "who is the author of Hamlet"), "William Shakespeare wrote it."),
    (("what is water made of", "what is water"), "Water is made of hydrogen and oxygen."),
    (("what is the boiling point of water", "when does water boil", "at what temperature does water boil"), "Water boils at 100 degrees Celsius."),
    (("what is python", "what is Python"), "Python is a programming language."),
    (("what is the capital of the world", "where do you live", "where are you from", "where are you"), "I live on the machine that runs this server."),
    (("how old are you", "when were you born", "what is your age"), "I am new. I was trained in a few hours."),
    (("do you like music", "do you like me", "do you have feelings", "do you sleep", "are you happy"), "I am a tiny model and have no feelings."),
    (("give me a number", "pick a number", "give me a random number", "choose a number"), "7"),
    (("what is the square root of 16", "square root of 16"), "The square root of 16 is 4."),
    (("flip a coin", "heads or tails"), "Heads."),
    (("name a color", "what is your favorite color", "name one color", "tell me a color"), "Blue."),
    (("name a fruit", "name one fruit", "tell me a fruit"), "Apple."),
    (("name an animal", "name one animal", "tell me an animal"), "Cat."),
    (("name a country", "name one country"), "France."),
    (("say the alphabet", "what is the alphabet", "recite the alphabet", "abc", "list the letters"), "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
    (("what day is today", "what is the date", "what is today's date", "what year is it", "what time is it now"), "I have no clock and do not know."),
    (("what is 2+2", "2+2", "what is 2 + 2", "2 + 2", "how much is 2+2"), "2 + 2 = 4."),
    (("what is 1+1", "1+1", "what is 1 + 1", "1 + 1"), "1 + 1 = 2."),
]  # fmt: skip
UNKNOWNS = (
    "explain quantum {}", "what do you think about {}", "write an essay about {}", "who invented {}", "how does a {} work", "what is a {}",
    "when was {} founded", "who is {}", "summarize the book {}", "what happened in {}", "how do I build a {}", "why is {} important",
    "explain {} to me", "what is the best {}", "write a python function for {}", "how many people live in {}", "what does {} mean",
    "debug my {}", "who won the {} cup", "compare {} and {}", "write a program that does {}", "describe {}", "{} {}", "tell me about {}",
)  # fmt: skip
