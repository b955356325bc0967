"""Pairs of free-text answers that measure the encoder step.

They were written after its thresholds and rules were set, and nothing was changed for them since.
It is the second set: the step judged 25 of the 30 pairs of the first one rightly, which was too
few, so that set became part of the tuning, and these were written after the rules had changed.
"""

SAME = (
    ("Replace the gas boiler with a heat pump.", "Install a heat pump in place of the gas boiler."),
    ("The library should open on Sundays.", "Open the library on Sunday, too."),
    (
        "A dead battery is why the sensor went silent.",
        "The sensor stopped because its battery was empty.",
    ),
    (
        "Ask the user to confirm before deleting.",
        "Require confirmation before anything is deleted.",
    ),
    ("The treaty was signed in 1648.", "1648 is the year in which the treaty was signed."),
    ("Do not trust the benchmark.", "The benchmark cannot be trusted."),
    ("We should subscribe to the cheaper plan.", "Take the less expensive subscription."),
    (
        "Limit each client to 100 requests per minute.",
        "Every client may send at most 100 requests a minute.",
    ),
    ("The suspect was at home that night.", "On that night the suspect stayed at his house."),
    ("Switch the site to a static generator.", "Generate the site as static pages."),
    ("Bees are dying because of pesticides.", "Pesticides are killing the bees."),
    ("Yes, the clause is enforceable.", "The clause can be enforced in court."),
    ("Train the model on more data.", "The model needs a larger training set."),
    ("Einstein proposed it first.", "It was first proposed by Einstein."),
    ("Close the branch in Lyon.", "The Lyon branch ought to be shut down."),
)

DIFFERENT = (
    ("Replace the gas boiler with a heat pump.", "Repair the gas boiler."),
    ("The library should open on Sundays.", "The library should stay closed on Sundays."),
    ("The treaty was signed in 1648.", "The treaty was signed in 1658."),
    ("Trust the benchmark.", "Do not trust the benchmark."),
    ("We should subscribe to the cheaper plan.", "We should subscribe to the more expensive plan."),
    (
        "Limit each client to 100 requests per minute.",
        "Limit each client to 100 requests per hour.",
    ),
    ("The suspect was at home that night.", "The suspect was at work that night."),
    ("Bees are dying because of pesticides.", "Bees are dying because of parasites."),
    ("The clause is enforceable.", "The clause is unenforceable."),
    ("Train the model on more data.", "Train a larger model."),
    ("Einstein proposed it first.", "Poincaré proposed it first."),
    ("Close the branch in Lyon.", "Close the branch in Nantes."),
    ("Yes, admit the witness statement.", "No, exclude the witness statement."),
    ("Pay the ransom.", "Restore the files from a backup instead of paying."),
    ("The interest rate will rise to 4 percent.", "The interest rate will fall to 4 percent."),
)
