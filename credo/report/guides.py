"""How to read each figure, in plain words."""

RELIABILITY_GUIDE = (
    "Test inputs are sorted into bins by the probability given to the predicted class. A point "
    "shows how often the answers of a bin were right; bars are 95 % intervals. On the dashed line, "
    "confidence is what it claims to be; below it, the method is too sure of itself; above it, too "
    "modest. The small bars show how many inputs a bin has: few inputs, little evidence."
)
COVERAGE_GUIDE = (
    "A 90 % interval should hold the true value in 90 % of cases. Each point is one level: on the "
    "dashed line, intervals are what they claim to be; below it they are too narrow, above it "
    "too wide. Bars are 95 % intervals from the number of test rows; neighboring points share "
    "most of their data and move together."
)
ENTROPY_GUIDE = (
    "Entropy is 0 for a certain answer and largest when all classes seem equally likely. Inputs of "
    "the test set should lie left, inputs of a kind never seen in training right. AUROC sums it "
    "up: the chance that an unfamiliar input gets the higher entropy; 0.5 is guessing, 1 "
    "perfect."
)
ENTROPY_GUIDE_RIGHT = (
    "Entropy is 0 for a certain answer and largest when all classes seem equally likely. Right "
    "answers should lie left, wrong ones right: then one can act on the uncertainty."
)
NO_UNFAMILIAR = (
    "There are no unfamiliar inputs here: with so few classes, holding one out would leave "
    "another problem."
)
PREDICTION_GUIDE = (
    "Each point is a test row of the first seed, with its 95 % interval. On the dashed line the "
    "prediction is right; about one interval in twenty may miss it. A method that knows where it "
    "knows little has intervals of different lengths."
)
TRAINING_GUIDE = (
    "One line for each seed and chain, averaged over blocks of steps. An optimizer's loss should "
    "fall and flatten out. A sampler's log joint density should settle and then wander around one "
    "level, the same for all chains; what comes before the dotted line is warm-up and is thrown "
    "away. The first moments of a run may lie outside the picture."
)
REJECTION_GUIDE = (
    "A method that knows what it does not know can hand over the inputs of which it is least "
    "certain, by entropy. The line shows how often it is right about the rest: the faster it "
    "rises, the more the uncertainty is worth. Faint lines are the other methods."
)
REJECTION_GUIDE_QUANTITIES = (
    "A method that knows what it does not know can hand over the rows of which it is least "
    "certain, by standard deviation. The line shows the typical error on the rest: the faster it "
    "falls, the more the uncertainty is worth; it is flat for a method that is equally certain of "
    "all rows. Faint lines are the other methods."
)
EXAMPLE_GUIDES = {
    "Test inputs": "The inputs about which the methods disagree most, as the first seed of each "
    "saw them. Wrong answers are red.",
    "Test rows": "The rows about which the methods disagree most, as the first seed of each saw "
    "them. An answer is red where its 95 % interval misses the true value.",
    "Unfamiliar inputs": "No answer is right here; a method that knows its limits has a low "
    "probability.",
    "Most confident mistakes": "Wrong answers, the surest first: the hardest to catch by asking "
    "for a minimum of confidence.",
    "Biggest surprises": "True values that lie the most predicted standard deviations away.",
}
PICTURES_GUIDE = "Below each input: what it is, and each method's answer with its probability."
FEATURES_GUIDE = (
    "Each method has a column: its answer, and how sure it is. Inputs are in standardized units."
)
COST_GUIDE = (
    "The first fit includes compiling, unless the compiled program was found on disk; later seeds "
    "run the same program. Prediction is of all test rows, the quickest of the seeds. Numbers "
    "kept is what must be stored: all draws of a sampler, one network of an optimizer."
)
