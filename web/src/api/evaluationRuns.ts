// Which of the listed runs play for an evaluation. The list of runs does not tell.

import type { EvaluationLine, RunLine } from "forumd-client";
import { useEffect, useState } from "preact/hooks";
import { getEvaluation, listEvaluations } from "./calls";

/** The evaluations whose plays are asked for, at most; each is one request. */
const MAX_EVALUATIONS = 5;

/** The plays of evaluations that have ended; they do not change. */
const known = new Map<string, string[]>();

/** Return the evaluation of each listed run that plays for one. */
export function useEvaluationRuns(runs: RunLine[]): Map<string, EvaluationLine> {
  const [found, setFound] = useState(new Map<string, EvaluationLine>());
  const oldest = runs.at(-1)?.begun ?? "";
  useEffect(() => {
    let isWanted = true;
    // Without an answer the list is shown run by run.
    findRuns(oldest)
      .then((map) => isWanted && setFound(map))
      .catch(() => {});
    return () => {
      isWanted = false;
    };
  }, [oldest]);
  return found;
}

async function findRuns(oldest: string): Promise<Map<string, EvaluationLine>> {
  const found = new Map<string, EvaluationLine>();
  if (!oldest) return found;
  const { evaluations } = await listEvaluations(1);
  const listed = evaluations.filter(({ ended }) => ended !== null && ended >= oldest);
  for (const line of listed.slice(0, MAX_EVALUATIONS)) {
    if (!known.has(line.run)) {
      const { report } = await getEvaluation(line.run);
      known.set(
        line.run,
        (report.plays ?? []).map((play) => play.run),
      );
    }
    for (const run of known.get(line.run) ?? []) found.set(run, line);
  }
  return found;
}
