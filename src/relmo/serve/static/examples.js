// Texts of the page, written for it: a word in two texts, and texts to read with a question.

export const STUDIES = [
  {
    name: "“play”: on the field, on the stage",
    word: "play",
    before: `The children play in the garden after school .
They play football in the park every Sunday .
The boys play cards in the evening .
We play chess with our neighbors .
The girls play tennis on the new court .
He wanted to play for the national team .
She will play the queen in the new film .
They play their home games at the old stadium .
You can play the piano in the hall .
The band will play in London next week .
Many people play music at home .
The team will play its last game in May .
They play jazz in a small club .
The two clubs play each other twice a year .
The older boys play against the teachers .
They want to play another match .
The play at the school was about a football team .`,
    after: `The play was written by a young author .
It is a play in three acts .
The first play of the season was a comedy .
She wrote a play about her mother .
The play was performed at the Royal Theatre .
He appeared in a play by Shakespeare .
The play tells the story of a poor family .
A new play opens in London this week .
The critics liked the play .
The characters of the play live in a small town .
The film is based on a play of the same name .
The play ran for two years in New York .
The last scene of the play is set in a garden .
Her second play was a failure .
His play about the war won a prize .
The play begins with a letter .
The children play in the last scene .`,
  },
  {
    name: "“plant”: in the garden, in industry",
    word: "plant",
    before: `This species of plant grows in dry soil and flowers in May .
The leaves of the plant are long and narrow .
It is a tall plant with yellow flowers .
The roots of the plant can be eaten .
A rare plant was found in the hills near the lake .
The plant produces small white flowers in spring .
Every plant needs light and water .
The plant is native to the islands of the south .
The seeds of this plant are carried by the wind .
It is a climbing plant that covers old walls .
The flowers of the plant open in the evening .
This plant belongs to the family of the roses .
The stem of the plant is covered with fine hairs .
They plant trees along the road every autumn .
We plant potatoes in the first week of April .
The farmers plant rice when the rain begins .
People plant flowers in front of their houses .
The gardeners plant roses near the gate .
You can plant the seeds in small pots .
The children plant beans and water them every day .`,
    after: `The power plant produces electricity for the whole region .
The nuclear power plant was closed in 2011 .
The company opened a new plant near the airport .
Workers at the plant went on strike for higher wages .
The car maker will build a plant in the north of the country .
The chemical plant was built in the seventies .
The plant employs two thousand workers .
The company sold its plant in Ohio .
A fire at the plant killed three workers .
The steel plant was modernized after the war .
The cement plant uses coal from a mine nearby .
The plant was closed and its machines were sold .
The assembly plant makes forty cars an hour .
An engineer at the power plant stopped the turbine .
The plant is owned by a Japanese company .
The water treatment plant serves three towns .
The leaves of the plant turn red in autumn .
It is a small plant with blue flowers .
They plant trees along the river .
We plant tomatoes in May .`,
  },
];

export const READINGS = [
  {
    name: "News",
    text: `The European Central Bank raised its interest rates on Thursday for the third time this year. Its president, Maria Keller, told reporters in Frankfurt that the bank had little choice. “Prices are still rising too fast,” she said.

The finance ministers of France and Italy criticized the decision. Paolo Ricci, who visited Berlin this week, warned that it could hurt small companies. He will meet Keller in Brussels on Monday 🇪🇺, and she has promised to explain the bank's plans to him.`,
    question: "Where will Ricci meet Keller?",
    pair: ["The minister met the president of the bank in Brussels.", "The two talked in Brussels."],
  },
  {
    name: "Story",
    text: `When Clara opened the old house, she found a letter on the kitchen table. Her brother Tom had left it there before he sailed to Lisbon. He wrote that he had sold the boat and given the money to their mother.

Clara read the letter twice. Then she put it into the stove, watched it burn, and called her mother. “Did you know?” she asked. Her mother did not answer her.`,
    question: "Who sold the boat?",
    pair: ["A woman burns a letter in a stove.", "The letter is safe in a drawer."],
  },
  {
    name: "Review",
    text: `I bought these headphones in Oslo last spring and I love them! The sound is warm, the battery lasts for days, and when one ear pad broke, the people at Nordlyd sent me a new one for free. My sister tried hers on the train to Bergen and was surprised how quiet the world became 😀. Only the case is a disappointment: it scratched within a week.`,
    question: "What did Nordlyd send?",
    pair: ["She listens to music on the train.", "She sleeps at home."],
  },
];
