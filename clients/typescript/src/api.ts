// The types of the HTTP API of Forum, and a table of its operations.
// Generated from the OpenAPI document by `just client`; do not edit.

export const VERSION = "0.2.0";

/** A seat that cast no ballot. */
export interface AbsentForm {
  seat: number;
  reason: string;
}

/** How far the seats agree in the end. */
export type Accord = "agreed" | "blocked" | "majority" | "split";

/** The position from which events are sent. */
export interface After {
  /**
   * The index of the last entry that the client has; without it, from the first one. `Last-
   * Event-ID` goes before it.
   */
  after?: number | null;
}

/** The one answer that there is. */
export interface Alternative {
  index: number;
  message: Reply;
  finish_reason: string;
  logprobs?: null;
}

/** The time, calls, tokens and dollars used. */
export interface AmountForm {
  /** An exact amount in US dollars, as a string. */
  usd: string;
  tokens: number;
  calls: number;
}

/** What is decided at a gate. */
export type Answer = "approve" | "reject";

/** Whether a claim holds, and why. */
export interface AnswerForm {
  state: State;
  reason: string;
}

/** A claim for the answer: where to check it, who else supports it, and who attacks it. */
export interface ArgumentForm {
  claim: string;
  status: string;
  /** The source: where to check the claim. */
  evidence: string | null;
  /** How many other seats support it. */
  support: number;
  attacks: Array<string>;
}

/** A request, and if wanted its plan, its lane and its limits. */
export interface AskForm {
  request: string;
  tasks?: Array<TaskAsk>;
  lane?: string;
  team?: boolean | null;
  route?: boolean | null;
  budget?: BudgetAsk;
  gates?: GateAsk | null;
  parallel?: number | null;
  retries?: number | null;
  panel?: PanelAsk | null;
  /** Who tries next if a result is not accepted: agents, then panels by name. */
  ladder?: Array<string>;
  /** The panels, by name, at which an escalation can end. */
  panels?: Record<string, PanelAsk>;
  /**
   * The run on whose answer the panel deliberates; the request is the question about it. The run
   * has ended. Needs the scope read.
   */
  about?: string | null;
}

/** By what somebody was allowed to decide at a gate. */
export type Authority = "key" | "operator" | "person";

/** The result that the first answers alone would have given. */
export interface BaselineForm {
  answer: string;
  answers: number;
  /** The share that gave this answer. */
  agreement: number;
  /** Whether deliberation led to another answer. */
  changed: boolean;
  spent: SpentForm;
}

/** By what a lane was chosen. */
export type Basis = "classifier" | "given" | "lexical" | "semantic";

/** An objection that must be answered before anything is called agreed. */
export interface BlockerForm {
  seat: number;
  text: string;
}

/** How the bodies that were committed to are found now. */
export interface Bodies {
  ok?: number;
  redacted?: number;
  missing?: number;
  mismatch?: number;
}

/** What may be used at most; what is not said has no limit. */
export interface BudgetAsk {
  /** Dollars. */
  usd?: string | number | null;
  tokens?: number | null;
  calls?: number | null;
  seconds?: string | number | null;
  depth?: number | null;
}

/** One account under a cap. */
export interface BudgetForm {
  /** The name of the cap in `forum.toml`, or its subject. */
  name: string;
  /**
   * The owner of the account: `ledger`, or one of `key`, `person`, `team`, `lane` and `agent`
   * with a name: `team:NAME`.
   */
  scope: string;
  per: Period;
  /** The hour, day, week (by its Monday) or month in UTC, or `ever`. */
  period: string;
  /** A point in time (RFC 3339, UTC). */
  until: string;
  cap: SharedCapForm;
  /** The amounts spent or reserved for calls. */
  used: SpendForm;
  left: SharedCapForm;
}

/** All accounts under caps over many runs. */
export interface BudgetsForm {
  budgets: Array<BudgetForm>;
  /** Whether all spending is frozen. */
  frozen?: boolean;
}

/** The result of a test call that asks an agent for one word. */
export interface CallForm {
  outcome: Outcome;
  why: Why | null;
  code: string | null;
  error: string | null;
  milliseconds: number;
  model: string | null;
  /** An exact amount in US dollars, as a string. */
  usd: string;
  tokens: number;
  calls: number;
}

/** What to do with a cap. */
export type CapAct = "raise" | "set" | "unset";

/** A cap to set. */
export interface CapAsk {
  /** `ledger`, or one of `key`, `person`, `team`, `lane` and `agent` with a pattern for names. */
  subject: string;
  /**
   * A number of dollars, or one of `tokens` or `runs`, and a period: `hour`, `day`, `week`,
   * `month` or `ever`.
   */
  amount: string;
  /** Whether to set it, to add the amount, or to remove the cap. */
  act?: CapAct;
}

/** The limits of a run; null means no limit. */
export interface CapForm {
  usd: string | null;
  tokens: number | null;
  calls: number | null;
  seconds: number | null;
}

/** An entry that led to another one. */
export interface CauseForm {
  /** The number of causes in between; 0 is the requested entry. */
  depth: number;
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  id: string;
  /** Null until it is sequenced. */
  index: number | null;
  entry: Record<string, unknown>;
  /** What the judge wrote, for a verdict or a check; else empty. */
  judge: string;
}

/** How many causes. */
export interface CausesAsk {
  limit?: number;
}

/** A seat has changed its answer. */
export interface ChangeForm {
  seat: number;
  round: number;
  before: string;
  after: string;
  /** Without a reason: such a change is not weighed. */
  conformity: boolean;
  /** The claims that it names. */
  because: Array<string>;
  evidence: string | null;
}

/** What clients send.  Members that are not listed are ignored, as are those that only tune. */
export interface ChatAsk {
  model: string;
  stream?: boolean | null;
  metadata?: Record<string, unknown> | null;
  forum?: Terms;
  messages: Array<Message>;
  stream_options?: StreamOptions | null;
  n?: unknown;
  tools?: unknown;
  tool_choice?: unknown;
  functions?: unknown;
  function_call?: unknown;
  response_format?: unknown;
  modalities?: unknown;
  audio?: unknown;
  logprobs?: unknown;
  top_logprobs?: unknown;
  stop?: unknown;
  web_search_options?: unknown;
}

/** An image, a sound or a file in a message; its content stays in the recorded body. */
export interface ChatAttachment {
  kind: string;
  media_type?: string;
  size?: number;
  name?: string;
}

/** One message. */
export interface ChatMessage {
  role: ChatRole;
  text?: string;
  reasoning?: string;
  calls?: Array<ChatToolCall>;
  results?: Array<ChatToolResult>;
  attachments?: Array<ChatAttachment>;
  note?: string;
}

/** Who says a message. */
export type ChatRole = "assistant" | "command" | "error" | "input" | "output" | "raw" | "system" | "tool" | "user";

/** A model asks for a tool. */
export interface ChatToolCall {
  name: string;
  arguments: string;
  id?: string;
}

/** What a tool has returned. */
export interface ChatToolResult {
  text: string;
  id?: string;
  name?: string;
}

/** By what a result was judged. */
export type Check = "command" | "contains" | "coverage" | "file" | "form" | "json" | "kept" | "matches" | "model" | "outcome" | "tests";

/** A check of the answer, and its outcome. */
export interface CheckForm {
  subject: string;
  outcome: Outcome;
  check: Check;
  reason: string | null;
  judge: string | null;
  independence: Independence | null;
  entry: number | null;
  /** The findings: each requirement, and the words of the answer that meet it. */
  detail: string;
}

/** The newest checkpoint of the log. */
export interface CheckpointForm {
  /** The name of the log. */
  origin: string;
  size: number;
  root: string;
  /** Whether enough witnesses have cosigned it. */
  witnessed: boolean;
  /** The signed note, with the cosignatures that it has. */
  note: string;
}

/** Something that can be chosen as a model. */
export interface ChoiceForm {
  id: string;
  object: string;
  created: number;
  owned_by: string;
  /** The purpose of the model. */
  description: string;
}

/** Everything that can be chosen as a model. */
export interface ChoicesForm {
  object: string;
  data: Array<ChoiceForm>;
}

/** The three things that can be claimed of a ledger. */
export type Claim = "complete" | "independent" | "intact";

/** A claimed action and the entry that shows it; without an entry it is unverified. */
export interface ClaimForm {
  deed: string;
  text: string;
  entry: number | null;
  receipt: string | null;
}

/** The paired difference of two configurations: the first minus the second, case by case. */
export interface Comparison {
  first: string;
  second: string;
  quality: Estimate;
  usd: Estimate;
  seconds: Estimate;
  conclusion: string;
}

/** How the free-text answers were compared. */
export interface ComparisonForm {
  /** Null: no encoder is installed. */
  encoder: string | null;
  /** How many wordings there were. */
  answers: number;
  /** How many answers they come to. */
  positions: number;
  pairs: Array<PairForm>;
}

/** An answer in one piece. */
export interface Completion {
  id: string;
  object: string;
  created: number;
  model: string;
  choices: Array<Alternative>;
  usage: UsageForm;
  system_fingerprint: string;
  forum: RunReference;
}

/** Why an entry is worth a look. */
export type Concern = "budget-stop" | "denial" | "gap" | "gate" | "indeterminate" | "stop";

/** The number of entries with each concern; of those that are left out too. */
export interface ConcernCountsForm {
  stops: number;
  budget_stops: number;
  denials: number;
  gaps: number;
  indeterminate: number;
  /** Gates that are open, whenever they were opened. */
  gates: number;
}

/** A configuration over all cases. */
export interface ConfigurationResult {
  configuration: string;
  spent_usd: string;
  figures: PlayFigures;
}

/** What costs are added up by. */
export type CostAxis = "agent" | "day" | "lane" | "model";

/** The dollars of a row for one day, agent, model or lane. */
export interface CostPartForm {
  key: string | null;
  /** An exact amount in US dollars, as a string. */
  usd: string;
}

/** What the calls of one day, agent, model or lane have cost. */
export interface CostRowForm {
  spent: AmountForm;
  /** How many of the calls have no known price, and count as free. */
  unpriced: number;
  /** How many runs made them. A run that another run has started is one. */
  runs: number;
  /**
   * The day, or the name; null if there is none. After the first thousand, all others are added
   * up under `(others)`.
   */
  key: string | null;
  /**
   * With `split`: the dollars by that axis, in the same order in each row. The eight dearest of
   * all rows are told apart, and others added up under `(others)`.
   */
  parts?: Array<CostPartForm>;
}

/** What some calls have cost. */
export interface CostSumForm {
  spent: AmountForm;
  /** How many of the calls have no known price, and count as free. */
  unpriced: number;
  /** How many runs made them. A run that another run has started is one. */
  runs: number;
}

/** Which runs, and what their costs are added up by. */
export interface CostsAsk {
  /**
   * The day (UTC) of the calls, their agent or model, or the lane that the route of the run has
   * chosen.
   */
  by?: CostAxis;
  /** Only runs that began at or after this time. */
  since?: string | null;
  /** Only runs that began before this time. */
  until?: string | null;
  /** A second axis, by which the dollars of each row are split. */
  split?: CostAxis | null;
  /** The cursor that the previous reply gave. */
  cursor?: string;
}

/** What runs have cost. */
export interface CostsForm {
  by: CostAxis;
  /** Days in their order, all else by cost. */
  rows: Array<CostRowForm>;
  total: CostSumForm;
  /**
   * How many of the runs go on. They are counted with what they have cost so far, and their open
   * calls with what is reserved for them.
   */
  runs_open: number;
  /** How many of the runs made calls that have no known price. */
  runs_unpriced: number;
  /** How many of the runs a budget or a cap has stopped. */
  runs_stopped: number;
  /** The newest of these, at most a hundred. */
  stopped: Array<string>;
  /**
   * How many of the runs have a summary that somebody has changed in the database. They are
   * counted by their entries; verify the ledger.
   */
  runs_altered: number;
  /**
   * Null if all runs are counted. Otherwise the cursor for the costs of the runs that began
   * before these: a request adds up about ten thousand runs at most.
   */
  next: string | null;
  /** In how many of the runs a cap refused a call, however they ended. */
  runs_refused?: number;
  /** How many calls caps refused. */
  calls_refused?: number;
  /** The newest of these runs, at most a hundred. */
  refused?: Array<string>;
  /**
   * In how many of the runs a provider billed more than the bound of a call. They are stopped,
   * and are not among `runs_stopped`.
   */
  runs_overrun?: number;
  /** The newest of these, at most a hundred. */
  overrun?: Array<string>;
}

/** The result of a council: sealed ballots, anonymous exchanges, a vote, and dissent. */
export interface CouncilForm {
  protocol: "council";
  /** How many seats there are. */
  seated: number;
  ballots: Array<RoundForm>;
  /** Why nobody was asked again; null before. */
  end: End | null;
  /** The rule that chose the answer. */
  ground: Ground | null;
  /** The degree of agreement of the seats. */
  accord: Accord | null;
  /** How often ballots were exchanged. */
  rounds: number;
  baseline: BaselineForm | null;
  spent: SpentForm | null;
  seats: Array<SeatForm>;
  changes: Array<ChangeForm>;
  /** The share of changes without a reason. */
  conformity: number;
  minority: Array<MinorityForm>;
  /** What evidence would decide. */
  decisive: Array<string>;
  blockers: Array<BlockerForm>;
  absent: Array<AbsentForm>;
  warnings: Array<string>;
  /** Why the answer is no decision; null if it is one. */
  headline?: string | null;
  /** Why the panel decided so: the claims for the answer, the best first. */
  claims?: Array<ArgumentForm>;
  /** The seats that were counted for the answer. */
  holders?: Array<number>;
  /** Null where the possible answers were listed. */
  comparison?: ComparisonForm | null;
}

/**
 * How the runs are known: the number of runs by provenance, and what is known to be missing.
 * It is no claim: that a program told everything cannot be checked.
 */
export interface Coverage {
  driven?: number;
  relayed?: number;
  wrapped?: number;
  reported?: number;
  gaps?: Array<GapCount>;
}

/** Who or what decided a gate. */
export type DecidedBy = "deadline" | "end" | "key" | "operator" | "person";

/** A decision at a gate. It names the digest of the content that was decided on. */
export interface DecisionAsk {
  subject: string;
  answer: Answer;
  /** The digest of the content that was decided on. */
  digest: string;
  /** Why; recorded with the decision, in a body that can be erased. */
  reason?: string;
}

/** What was decided at a gate. */
export interface DecisionForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
  answer: Answer;
  /** The digest of what a gate shows; a decision names it. */
  digest: string;
}

/** A problem as a client reads it (RFC 9457). */
export interface Details {
  type: string;
  title: string;
  status: number;
  detail?: string;
  instance?: string;
}

/** The steps in which two runs differ. */
export interface DiffForm {
  /** The name of a run. */
  a: string;
  /** The name of a run. */
  b: string;
  equal: boolean;
  /** How many steps differ; a thousand are listed. */
  count: number;
  divergences: Array<DivergenceForm>;
  /** Null if there is none, or it was erased. */
  answer_a: string | null;
  answer_b: string | null;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance_a: Provenance;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance_b: Provenance;
}

/** Which entries of the directory. */
export interface DirectoryAsk {
  /**
   * The position of the first entry, from 0 on. A negative one is counted from the end of what
   * was signed: -64 begins with the last 64.
   */
  first?: number;
  limit?: number;
}

/** Consecutive entries of the directory of runs, with their proof. */
export interface DirectoryForm {
  /** The position of the first entry in the directory. */
  first: number;
  /** The entries as they were hashed; each names the one before it. */
  entries: Array<string>;
  /** A C2SP tlog-proof of the last of these entries. */
  proof: string;
}

/** A step in which two runs differ. */
export interface DivergenceForm {
  parting: DivergenceKind;
  strand: string;
  step: string;
  first: StepForm | null;
  second: StepForm | null;
}

/** How two runs differ at a step. */
export type DivergenceKind = "added" | "bodies" | "facts" | "missing";

/** A review that somebody has done. */
export interface DoneReviewForm {
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  entry: string;
  /** A point in time (RFC 3339, UTC). */
  at: string;
  actor: string;
  by: Authority;
  /** The index of an entry in the log. */
  since: number;
  /** The index of an entry in the log. */
  until: number;
  /** Null if there is none, or it was erased. */
  remark: string | null;
}

/**
 * The input begins with the first bytes of the recorded input of an earlier step of the run.
 * `input` is then a text: what follows these bytes.  It is put together before anything of the
 * batch is recorded; where that is not possible, the whole batch is refused as a conflict, and
 * has     to be sent with whole inputs.
 */
export interface EarlierInput {
  span: string;
  size: number;
  sha256: string;
}

/** What is to be approved instead of what has this digest. */
export interface EditAsk {
  subject: string;
  digest: string;
  shown: string;
}

/** An effect outside of Forum: what was intended, and its outcome. */
export interface EffectForm {
  task: string;
  tool: string;
  /** Null while no outcome is recorded. */
  outcome: Outcome | null;
  entry: number | null;
}

/** Why nobody was asked again. */
export type End = "exhausted" | "gate" | "rounds" | "silent" | "stable" | "stopped" | "unanimous";

/** Which entries, from where on. */
export interface EntriesAsk {
  run?: string;
  /** The value of `next` of the previous page. */
  after?: number;
  limit?: number;
}

/** Some entries, in the order of the log. */
export interface EntriesPage {
  entries: Array<EntryForm>;
  /** Where the next page begins; null at the end of the log. */
  next: number | null;
}

/** An entry of the log, byte for byte as it is hashed. */
export interface EntryForm {
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  id: string;
  /** Null until it is sequenced. */
  index: number | null;
  entry: Record<string, unknown>;
}

/** What came of an earlier log that the verified one continues. */
export interface EpochSummary {
  origin: string;
  size: number;
  root: string;
  intact: State;
  complete: State;
  independent: State;
  witnessing?: WitnessState;
}

/** By what it was decided whether two answers are the same. */
export type EquivalenceStep = "encoder" | "judge" | "text";

/** A mean over cases, with its 95 % confidence interval. */
export interface Estimate {
  mean: number;
  low: number | null;
  high: number | null;
  cases: number;
  method: IntervalMethod;
}

/** The comparison of configurations on the same cases. */
export interface EvalReport {
  evaluation: string;
  cases: number;
  repeat: number;
  configurations: Array<ConfigurationResult>;
  comparisons: Array<Comparison>;
  lanes: Array<LaneResult>;
  models: Array<ModelResult>;
  plays: Array<PlayResult>;
  unplayed?: Array<UnplayedCase>;
  judge?: JudgeUse | null;
}

/** An evaluation: the recorded report, and whether it follows from the recorded runs. */
export interface EvaluationForm {
  /** The name of a run. */
  run: string;
  check: ReportCheck;
  /** What each case asks for; none if they were erased. */
  requests: Array<string>;
  report: EvalReport;
}

/** An evaluation in a list. */
export interface EvaluationLine {
  /** The name of a run. */
  run: string;
  /** A point in time (RFC 3339, UTC). */
  begun: string;
  /** Null while it goes on, or if it was given up. */
  ended: string | null;
  /** Agents that play alone, and `team`. */
  configurations: Array<string>;
  cases: number;
  /** How often each case is played. */
  repeat: number;
  /** How many plays were recorded. */
  plays: number;
  unplayed: number;
}

/** Which part of the list. */
export interface EvaluationsAsk {
  /** The cursor that the previous page gave. */
  cursor?: string;
  limit?: number;
}

/** Evaluations, the newest first. */
export interface EvaluationsPage {
  evaluations: Array<EvaluationLine>;
  /** The cursor of the next page; null at the end. */
  next: string | null;
}

/** What a pack is to be about. */
export interface EvidenceAsk {
  /** Empty for the beginning of the log. */
  since?: string;
  /** The first moment after it; empty for now. */
  until?: string;
  /** A run; empty for a period. */
  incident?: string;
  maps?: Array<string>;
  /** Whether maps that nobody has reviewed may be used, with a mark. */
  unreviewed?: boolean;
  /** How many runs are drawn. */
  sample?: number;
  /** The auditor's; empty for that of the witnesses. */
  seed?: string;
}

/** The evidence that a feature of a request gives for the best lane against the second. */
export interface EvidenceForm {
  feature: string;
  weight: number;
}

/** A call of a model, a use of a tool, or another step, as messages. */
export interface ExchangeForm {
  /** The entry that ends the step, or begins it. */
  entry: number | null;
  /** The entry that begins it. */
  began_entry: number | null;
  strand: string;
  op: Operation;
  name: string;
  agent: string | null;
  model: string | null;
  /** Null while the step goes on. */
  outcome: Outcome | null;
  /** The type of an error, or a status. */
  code: string | null;
  /** A point in time (RFC 3339, UTC). */
  began: string;
  /** How long it took, in seconds. */
  seconds: number;
  spent: AmountForm;
  input_tokens: number;
  output_tokens: number;
  /** Why the model stopped, in its words. */
  stop_reason: string | null;
  /**
   * How many messages at the beginning of the request are left out here, because an earlier
   * request has them.
   */
  repeated: number;
  /**
   * The entry of the earlier step whose messages are left out; null if none are. Agents that
   * take turns go on from different steps.
   */
  follows: number | null;
  /**
   * How many messages of that step the request has no more: the agent has rewritten its history,
   * for example replaced it by a summary.
   */
  dropped: number;
  /**
   * How many further messages are left out, because that step has them too: those behind a part
   * of the history that was rewritten.
   */
  repeated_later: number;
  /** What was sent; empty if it was erased. */
  request: Array<ChatMessage>;
  /** What came back; empty if it was erased. */
  reply: Array<ChatMessage>;
}

/** A finding: what is wrong, and where. */
export interface FindingForm {
  problem: Problem;
  detail: string;
  index: number | null;
  /** Where the entry stands: run/strand/n. */
  entry: string | null;
  /** The claim that it refutes. */
  claim: Claim;
}

/** From where another run is begun. */
export interface ForkAsk {
  /** The last entry that the new run copies. */
  at: number;
}

/** Whether a freeze begins or ends. */
export type FreezeAct = "freeze" | "unfreeze";

/** Whether a freeze of all spending begins or ends. */
export interface FreezeAsk {
  act: FreezeAct;
  reason?: string;
}

/** Gaps for one reason, and the steps that are missing by them, as far as these are counted. */
export interface GapCount {
  why: string;
  gaps: number;
  steps: number;
}

/** Steps that are known to be missing. */
export interface GapForm {
  why: GapReason;
  /** 0 if the number is not known. */
  steps: number;
  since: string | null;
  until: string | null;
  entry: number | null;
}

/** Why steps are missing. */
export type GapReason = "filtered" | "limit" | "overflow" | "parent-unseen" | "refused" | "sampled" | "sequence" | "shutdown" | "unreachable";

/** What a person has to approve first. */
export interface GateAsk {
  /** `plan`, `tasks`, `task:NAME`, `dissent`. */
  what: Array<string>;
  seconds?: number | null;
  default?: Answer | null;
}

/** The content that replaced another at a gate. The gate is still open, with this digest. */
export interface GateEditForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
  /** The digest of what a gate shows; a decision names it. */
  digest: string;
}

/** A gate: something that waits, or has waited, for a decision. */
export interface GateForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
  /** The digest of what a gate shows; a decision names it. */
  digest: string;
  decided: Answer | null;
  by: DecidedBy | null;
  /** The decision that takes effect if nobody decides in time. */
  default: Answer;
  /** A point in time (RFC 3339, UTC). */
  deadline: string;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance: Provenance;
  /**
   * Who asks: the actor that submitted the run, or the key or process that reports it. A gate of
   * a run that is not `driven` shows what its program says.
   */
  asked_by: string;
}

/** Something waits for approval.  Reporting it again returns the decision, if there is one. */
export interface GateQuestion {
  type: "gate";
  run: string;
  subject: string;
  shown: string;
  milliseconds: number;
  default?: Answer;
}

/** The output of a task that a decision is about. */
export interface GateResult {
  task: string;
  result: string;
}

/** The decision at a gate of the batch; None while it waits. */
export interface GateState {
  item: number;
  answer: Answer | null;
}

/** Everything that waits for a person. */
export interface GatesForm {
  gates: Array<LocatedGateForm>;
}

/** By what the answer was chosen. */
export type Ground = "check" | "gate" | "judge" | "none" | "vote";

/** An incident to open. */
export interface IncidentAsk {
  severity: IncidentSeverity;
  /** What happened. */
  text: string;
  /** The runs in it. */
  runs?: Array<string>;
  /** When somebody became aware; empty for now. */
  known?: string;
}

/** How an incident was dealt with. */
export interface IncidentCloseAsk {
  text: string;
}

/** An incident, open or closed. */
export interface IncidentForm {
  id: string;
  severity: IncidentSeverity;
  runs: Array<string>;
  /** When somebody became aware of it. */
  known: string;
  /** A point in time (RFC 3339, UTC). */
  opened: string;
  opened_by: string;
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  entry: string;
  /** Null while it is open. */
  closed: string | null;
  closed_by: string | null;
  /** Null if it was erased. */
  text?: string | null;
  /** Null while it is open, or if it was erased. */
  closing_text?: string | null;
}

/** How bad an incident is, by the judgement of the person who opened it. */
export type IncidentSeverity = "critical" | "high" | "low" | "medium";

/** All incidents, the oldest first. */
export interface IncidentsForm {
  incidents: Array<IncidentForm>;
}

/** Whether the one who judged is another than the one who was judged; computed, not claimed. */
export type Independence = "" | "independent" | "not-independent";

/**
 * The proven interval of a run, in seconds since 1970 by the clocks of the reader's witnesses.
 * A side is None if no witnessed checkpoint bounds the run there: then it was not checked.
 */
export interface Interval {
  after?: number | null;
  before?: number | null;
}

/** How an interval was computed. */
export type IntervalMethod = "agresti-min" | "none" | "student-t" | "wilson";

/** One turn, as the Responses API has it. */
export interface Item {
  type?: string;
  role?: Speaker | null;
  content?: string | Array<Part> | null;
}

/** An item of a batch that is not recorded, and why. */
export interface ItemRefusal {
  item: number;
  code: string;
  why: string;
  facts?: Array<string | number>;
}

/** The judge that compared answers with references; its cost is not that of the plays. */
export interface JudgeUse {
  agent: string;
  judged: number;
  unjudged: number;
  spent_usd: string;
  not_independent_of: Array<string>;
}

/** An API key to create. */
export interface KeyAsk {
  /** The name of its owner: visible ASCII without quote and backslash. */
  name: string;
  scopes: Array<Scope>;
  seconds?: number | null;
}

/** An API key. The secret itself is never stored. */
export interface KeyForm {
  id: string;
  name: string;
  scopes: Array<Scope>;
  /** RFC 3339. */
  made: string;
  /** RFC 3339; null if the key does not expire. */
  expires: string | null;
  state: Validity;
}

/** Whether there is a key. The key itself is never shown. */
export type KeyState = "missing" | "none" | "provider" | "set";

/** All API keys of a ledger, oldest first. */
export interface KeysForm {
  keys: Array<KeyForm>;
}

/** A specialist of the roster. */
export interface LaneForm {
  name: string;
  group: string;
  does: string;
  /** How strong a model its work usually needs. */
  tier: Tier;
  tools: Array<string>;
}

/** A configuration over the cases of one lane. */
export interface LaneResult {
  lane: string;
  configuration: string;
  figures: PlayFigures;
}

/** A gate, with the data that is needed to check its digest. */
export interface LocatedGateForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
  /** The digest of what a gate shows; a decision names it. */
  digest: string;
  decided: Answer | null;
  by: DecidedBy | null;
  /** The decision that takes effect if nobody decides in time. */
  default: Answer;
  /** A point in time (RFC 3339, UTC). */
  deadline: string;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance: Provenance;
  /**
   * Who asks: the actor that submitted the run, or the key or process that reports it. A gate of
   * a run that is not `driven` shows what its program says.
   */
  asked_by: string;
  /** The entry that commits to what is shown; null until it has an index. */
  index: number | null;
  /**
   * The salt of the body `shown` of that entry, in hexadecimal digits: the digest is the salted
   * commitment to the body. Null if it was erased.
   */
  salt: string | null;
}

/** Who a client is to this server, and which ledger it uses. */
export interface MeForm {
  /** The actor of the entries that the client records. */
  name: string;
  scopes: Array<Scope>;
  /** The origin of the log. */
  ledger: string;
  /** The version of Forum. */
  version: string;
}

/** One turn of a conversation. */
export interface Message {
  role: Speaker;
  content?: string | Array<Part> | null;
}

/** What a message of the transcript is. */
export type MessageType = "branch_turn" | "coordination_turn" | "panel_contraction" | "primary_turn" | "problem_statement" | "synthesis";

/** A position that did not become the answer, with the best that was said for it. */
export interface MinorityForm {
  answer: string;
  seats: Array<number>;
  weight: number;
  argument: string | null;
  evidence: string | null;
  /** How many other seats rest on the argument. */
  support: number;
  attacks: Array<string>;
}

/** An agent: its configuration, availability, prices and use. */
export interface ModelForm {
  /** The default agent has none. */
  name: string;
  /** Where it is configured. */
  origin: string;
  usable: boolean;
  problem: string | null;
  warning: string | null;
  kind: string;
  model: string;
  /** The host, or the program. */
  where: string;
  key: KeyState;
  /** The variable or the file that holds the key. */
  key_name: string | null;
  price: PriceForm;
  /** Whether it works on tasks that name no agent. */
  default: boolean;
  tiers: Array<Tier>;
  lanes: Array<string>;
  roles: Array<string>;
  /** Null if it was not tried. */
  call: CallForm | null;
}

/** The calls of one model for a configuration, over all plays. */
export interface ModelResult {
  configuration: string;
  model: string;
  calls: number;
  tokens: number;
  spent_usd: string;
  seconds: number;
}

/** Every agent that is configured. */
export interface ModelsForm {
  agents: Array<ModelForm>;
  /** Whether the judge is a model that works on no task itself. */
  independent_judge: boolean;
}

/** A new API key with its secret, which is shown only once. */
export interface NewKeyForm {
  key: KeyForm;
  /** The secret that a client sends as its bearer token. */
  secret: string;
}

/** What follows from a verdict. */
export type Next = "accept" | "escalate" | "give-up" | "retry";

/** What a step does. */
export type Operation = "agent" | "guardrail" | "handoff" | "model" | "retrieval" | "step" | "tool";

/** What a judge wrote about a result. */
export interface OpinionForm {
  reason: string;
  /** The words of the result that decided. */
  evidence: string;
  missing: Array<string>;
}

/** How a step or a run ended. */
export type Outcome = "cancelled" | "denied" | "failed" | "indeterminate" | "ok" | "timeout";

/** How a session can end. */
export type OutcomeKind = "synthesis" | "termination";

/** The answer. */
export interface OutputMessage {
  id: string;
  status: string;
  content: Array<OutputText>;
  type?: string;
  role?: string;
}

/** The words of the answer. */
export interface OutputText {
  text: string;
  type?: string;
  annotations?: Array<unknown>;
  logprobs?: Array<unknown>;
}

/** Two free-text answers, whether they count as the same, and which step decided that. */
export interface PairForm {
  first: string;
  second: string;
  same: boolean;
  step: EquivalenceStep;
  /** The similarity by the encoder, up to 1. */
  score: number | null;
  /** The rule on words that made them different. */
  rule: string | null;
}

/** Who is to deliberate on the request, instead of carrying out a plan. */
export interface PanelAsk {
  /** `council`: ballots and a vote; `symposium`: turns and a synthesis. */
  protocol?: Protocol;
  /** The number of seats. Default: that of the personas, or of the models, or five. */
  seats?: number | null;
  /** Agents that take the seats in turn. Default: all agents. */
  models?: Array<string>;
  /** The personas of the seats, in turn. */
  personas?: Array<string | Persona>;
  /** The possible answers. Default: answers are free text. */
  options?: Array<string>;
  /** The maximum number of exchanges of ballots, or of turns of each seat. */
  rounds?: number | null;
  /** The number of seats that answer first. With 0, all seats answer. */
  baseline?: number;
  /** The share of these seats that must agree for the panel to end early. */
  threshold?: number;
  /** The agent that compares free-text answers. */
  judge?: string | null;
  /**
   * The agreement that a task with this panel needs to pass: `majority` or `agreement`. A
   * blocked or split panel never passes.
   */
  require?: Requirement;
}

/** A part of a message; only texts are taken. */
export interface Part {
  type: string;
  text?: string | null;
}

/** The work of one role in a run. */
export interface PartForm {
  role: string;
  who: string;
  /** Null for a role that is called within tasks and has no state of its own. */
  state: TaskState | null;
  spent: AmountForm;
}

/** For how long a cap counts: in UTC, by the clock of the database; weeks begin on Monday. */
export type Period = "day" | "ever" | "hour" | "month" | "week";

/** A way of thinking: one for any subject, or one for some of them. */
export interface Persona {
  persona_class: "domain" | "horizontal";
  id: string;
  reasoning_scope: string;
  reasoning_style: string;
  behavioral_constraints: Array<string>;
  failure_modes: Array<string>;
  output_requirements?: Array<string>;
  domain_scope?: Array<string>;
  forbidden_domains?: Array<string>;
  must_delegate?: Record<string, string>;
  status?: "archived" | "deprecated" | "experimental" | "stable";
}

/** A preview: the plan of a request, if it were submitted now. */
export interface PlanForm {
  /** Null if no lane was looked for, or none is certain. */
  lane: string | null;
  /** Whether a team would make the plan: no task is known. */
  team: boolean;
  /** The agent that would choose the lane; null if none is asked. */
  classifier: string | null;
  tasks: Array<PlannedForm>;
  /** What a person has to approve first. */
  gates: Array<string>;
  cap: CapForm;
  /** Whether models or verifiers would judge results or the answer. */
  judged?: boolean;
  /** With `record`: the run whose note holds this reply and the request. */
  recorded?: string | null;
}

/** A planned task. */
export interface PlannedForm {
  id: string;
  instruction: string;
  done_when: string;
  /** The tasks whose output it receives. */
  needs: Array<string>;
  /** The tasks that must end before it, and whose output it does not receive. */
  after: Array<string>;
  lane: string | null;
  /** The agent that would work on it; empty for the default agent. */
  agent: string;
  /** The plan within it. */
  tasks: Array<PlannedForm>;
  /** The panel that would deliberate on it; null if a single agent works on it. */
  panel?: PlannedPanelForm | null;
  /** The options of its panel; empty if any text may be the answer. */
  decide?: Array<string>;
}

/** A planned panel. */
export interface PlannedPanelForm {
  protocol: Protocol;
  /** The agent of each seat; the default agent has no name. */
  agents: Array<string>;
  /** The agreement that its task needs to pass. */
  require: Requirement;
}

/** The figures of some plays of a configuration; money is in dollars. */
export interface PlayFigures {
  plays: number;
  failed: number;
  quality: Estimate;
  usd: Estimate;
  seconds: Estimate;
  tokens: Estimate;
}

/** One play, with the run that shows it. */
export interface PlayResult {
  case: number;
  configuration: string;
  repeat: number;
  run: string;
  outcome: Outcome;
  quality: number;
  lane: string;
  usd: string;
  tokens: number;
  seconds: number;
}

/** A request whose plan is wanted. */
export interface PreviewAsk {
  request: string;
  tasks?: Array<TaskAsk>;
  lane?: string;
  team?: boolean | null;
  route?: boolean | null;
  budget?: BudgetAsk;
  gates?: GateAsk | null;
  parallel?: number | null;
  retries?: number | null;
  panel?: PanelAsk | null;
  /** Who tries next if a result is not accepted: agents, then panels by name. */
  ladder?: Array<string>;
  /** The panels, by name, at which an escalation can end. */
  panels?: Record<string, PanelAsk>;
  /**
   * The run on whose answer the panel deliberates; the request is the question about it. The run
   * has ended. Needs the scope read.
   */
  about?: string | null;
  /** Whether to record request and reply; needs the scope submit. */
  record?: boolean;
}

/** The known prices of an agent: for a million tokens, or for a call. */
export interface PriceForm {
  table: string | null;
  input_usd: string | null;
  output_usd: string | null;
  call_usd: string | null;
}

/** Everything that can be found wrong.  The name is what `--json` prints. */
export type Problem = "after-close" | "body-mismatch" | "body-missing" | "bundle-altered" | "catalogue-mismatch" | "cause-missing" | "child-foreign" | "column-mismatch" | "cosignature-missing" | "directory-broken" | "entry-malformed" | "entry-missing" | "epoch-missing" | "foreign-entry" | "history-replaced" | "hold-broken" | "leaf-mismatch" | "left-unsequenced" | "link-broken" | "not-witnessed" | "nothing-signed" | "parent-unknown" | "past-unknown" | "position-doubled" | "position-missing" | "proof-rejected" | "report-invalid" | "root-mismatch" | "row-quarantined" | "rule-missing" | "run-course" | "run-unopened" | "score-invalid" | "session-answer" | "session-asked" | "session-counted" | "session-course" | "session-missing" | "session-order" | "session-recorded" | "session-surplus" | "signature-rejected" | "strand-unclosed" | "stray-entry" | "table-mismatch" | "tag-rejected" | "tail-cut" | "time-impossible";

/** The proof of an entry, which can be checked offline. */
export interface ProofForm {
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  id: string;
  /** The index of an entry in the log. */
  index: number;
  /** A C2SP tlog-proof: the inclusion proof, and the checkpoint it leads to. */
  proof: string;
}

/** By which rules a panel sits. */
export type Protocol = "council" | "symposium";

/** How Forum knows of a run. */
export type Provenance = "driven" | "relayed" | "reported" | "wrapped";

/** Of the tokens that were read. */
export interface ReadDetails {
  cached_tokens?: number;
}

/** Why a session ended without a synthesis. */
export type Reason = "" | "budget_exceeded" | "external_research_required" | "provider_unrecoverable" | "schema_error" | "timeout" | "user_cancel" | "user_input_required";

/** The calls that were refused for one reason before they were made. */
export interface RefusalsForm {
  reason: string;
  calls: number;
}

/** Whether a replay of a run from its record gives the same entries. */
export interface ReplayForm {
  /** The name of a run. */
  run: string;
  equal: boolean;
  /** How many steps differ; a thousand are listed. */
  count: number;
  divergences: Array<DivergenceForm>;
  /** What is missing in the record, if the replay ended because of it. */
  missing: string;
}

/** What was answered. */
export interface Reply {
  role: string;
  content: string;
  refusal?: string | null;
}

/** Items in the order in which they are to be recorded. */
export interface ReportBatch {
  items: Array<RunStart | StepBegin | StepReport | RunEnd | GateQuestion>;
}

/** Whether the recorded report of an evaluation follows from the recorded runs. */
export type ReportCheck = "differs" | "erased" | "follows" | "not computed";

/** What was checked, what was found, and what was not checked. */
export interface ReportForm {
  /** Whether all three claims hold. */
  ok: boolean;
  origin: string;
  size: number;
  root: string;
  intact: AnswerForm;
  complete: AnswerForm;
  independent: AnswerForm;
  findings: Array<FindingForm>;
  /** How many findings there are; a thousand are listed. */
  found: number;
  not_checked: Array<string>;
  entries: number;
  runs: number;
  open_runs: Array<string>;
  bodies: Bodies;
  /** Entries that are newer than the checkpoint. */
  pending: number;
  sightings: Array<Sighting>;
  /** The earlier logs that a ledger continues, the newest first. */
  epochs: Array<EpochSummary>;
  /** Remarks that are not findings. */
  notices?: Array<string>;
  /** How the runs are known, and which steps are known to be missing. */
  coverage?: Coverage;
  /**
   * Who has seen it: `independent` only if your trust file marks a witness that cosigned it as
   * another organization's; otherwise `self-witnessed` or `none`.
   */
  witnessing?: WitnessState;
  /**
   * When the run of a bundle was written, in seconds since 1970, as witnesses prove it; null
   * where that was not checked, and for a whole ledger.
   */
  interval?: Interval | null;
}

/** The provenance of a run that Forum does not drive. */
export type ReportProvenance = "relayed" | "reported" | "wrapped";

/** What became of the items of a batch. */
export interface ReportResult {
  recorded?: number;
  known?: number;
  refused?: Array<ItemRefusal>;
  gates?: Array<GateState>;
}

/** How far a panel has to agree, so that its answer is accepted. */
export type Requirement = "agreement" | "majority";

/** Why there is no answer. */
export interface ResponseError {
  code: string;
  message: string;
}

/** A response, as far as it has come. */
export interface ResponseForm {
  id: string;
  created_at: number;
  model: string;
  status: string;
  metadata: Record<string, unknown>;
  output?: Array<OutputMessage>;
  usage?: ResponseUsage | null;
  error?: ResponseError | null;
  object?: string;
  instructions?: string | null;
  incomplete_details?: null;
  parallel_tool_calls?: boolean;
  tool_choice?: string;
  tools?: Array<unknown>;
  temperature?: null;
  top_p?: null;
  text?: Record<string, unknown>;
  background?: boolean;
  store?: boolean;
  /** Where the answer comes from, once it is there. */
  forum?: RunReference | null;
}

/** Tokens. */
export interface ResponseUsage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  input_tokens_details?: ReadDetails;
  output_tokens_details?: WrittenDetails;
}

/** What clients send.  Members that are not listed are ignored, as are those that only tune. */
export interface ResponsesAsk {
  model: string;
  stream?: boolean | null;
  metadata?: Record<string, unknown> | null;
  forum?: Terms;
  input: string | Array<Item>;
  instructions?: string | null;
  tools?: unknown;
  tool_choice?: unknown;
  text?: unknown;
  background?: unknown;
  previous_response_id?: unknown;
  conversation?: unknown;
  prompt?: unknown;
  include?: unknown;
  top_logprobs?: unknown;
}

/** A review that somebody has done. */
export interface ReviewAsk {
  /** The `until` of the review that was shown. */
  until: number;
  /** A run; empty for all. */
  run?: string;
  remark?: string;
}

/** What is worth a look since the last review, or of one run. */
export interface ReviewForm {
  /** The first entry that was looked at. */
  since: number;
  /** The first entry that was not looked at. */
  until: number;
  run: string | null;
  counts: ConcernCountsForm;
  /** The newest of them. */
  items: Array<ReviewItemForm>;
  /** Those that are open. */
  incidents: Array<IncidentForm>;
  /** The review before. */
  last: DoneReviewForm | null;
  /** The entry of the review that was just recorded. */
  recorded: string | null;
}

/** An entry that is worth a look, and why. */
export interface ReviewItemForm {
  concern: Concern;
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  id: string;
  index: number | null;
  /** The name of a run. */
  run: string;
  strand: string;
  kind: string;
  actor: string;
  /** A point in time (RFC 3339, UTC). */
  at: string;
  /** The entry in words; over HTTP, its facts. */
  text: string;
}

/** What to look at. */
export interface ReviewQuery {
  /** A run; empty for all. */
  run?: string;
  /** How many items are listed. */
  limit?: number;
}

/** All specialists of the roster. */
export interface RosterForm {
  /** The digest of the roster, which routes name. */
  digest: string;
  lanes: Array<LaneForm>;
}

/** How many ballots of a round are sealed. */
export interface RoundForm {
  round: number;
  sealed: number;
  revealed: boolean;
}

/** A request whose lane is wanted. */
export interface RouteAsk {
  text: string;
  /** Whether to record request and reply; needs the scope submit. */
  record?: boolean;
}

/** The lane that a request belongs to, and why. */
export interface RouteForm {
  /** Null if no lane is certain enough; `next` says what happens then. */
  lane: string | null;
  /** The measured share of routes like this one that are right. */
  confidence: number;
  nearest: string;
  runner_up: string;
  /** The sum of the evidence. */
  margin: number;
  evidence: Array<EvidenceForm>;
  rung: string;
  /**
   * What `submit` does with it in this project: `lane` carries it out in the lane, `classifier`
   * asks a model for the lane, `no-lane` carries it out without one, `not-routed` gives it to
   * the agent as it is, because no model is configured.
   */
  next: RouteNext;
  /** With `record`: the run whose note holds this reply and the request. */
  recorded?: string | null;
}

/** What becomes of a request after it was routed. */
export type RouteNext = "classifier" | "lane" | "no-lane" | "not-routed";

/** The lane of a run, how it was chosen, and how certain the choice was. */
export interface RoutedForm {
  lane: string | null;
  basis: Basis;
  confidence: number;
  runner_up: string | null;
  margin: number;
  /** The digest of the roster that the lane was chosen from. */
  roster: string | null;
  entry: number | null;
}

/** A run has ended, and this many steps were handed in and dropped. */
export interface RunEnd {
  type: "end";
  run: string;
  name: string;
  outcome: Outcome;
  handed_in: number;
  dropped?: number;
  dropped_why?: GapReason;
  refused?: number;
  missing_why?: GapReason;
  filtered?: number;
}

/** A run: its request, progress, cost and answer. */
export interface RunForm {
  /** The name of a run. */
  run: string;
  /** The last entry that is taken into account, if not all are. */
  until: number | null;
  state: RunState;
  /** Null while the run goes on. */
  outcome: Outcome | null;
  /**
   * The outcome, as an exit status: 0 answered, 1 failed, 5 budget or time used up, 6 waiting
   * for approval, 8 a council is split, 9 a council is blocked; null while it goes on.
   */
  status: Status | null;
  /** Why it failed, or what it waits for. */
  reason: string;
  /** Null if it was erased. */
  request: string | null;
  /** Null if there is none, or it was erased. */
  answer: string | null;
  spent: AmountForm;
  cap: CapForm;
  /** By the names of agents. */
  spent_by: Record<string, AmountForm>;
  route: RoutedForm | null;
  roles: Array<PartForm>;
  checks: Array<CheckForm>;
  claims: Array<ClaimForm>;
  effects: Array<EffectForm>;
  /** A point in time (RFC 3339, UTC). */
  begun: string;
  /** How long it took, in seconds. */
  seconds: number;
  tasks: Array<TaskForm>;
  /** Null if no panel deliberates. */
  deliberation: CouncilForm | SymposiumForm | null;
  gates: Array<GateForm>;
  waits_for: Array<WaitForm>;
  /** The run that this one was forked from. */
  fork_of: string | null;
  /** The run that started this one. */
  within: string | null;
  /** The run on whose answer the panel of this one deliberates. */
  about?: string | null;
  /** Why it failed, in one sentence with the last reply; null if it did not. */
  why?: string | null;
  /** Of the run, its tasks and its answer. */
  scores?: Array<ScoreForm>;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance?: Provenance;
  /** How Forum knows of the run, and what may be missing in it. */
  coverage?: string;
  /** The name of a run that Forum does not drive. */
  name?: string | null;
  /** Who reports the run. */
  source?: SourceForm | null;
  /** The steps of a run that Forum does not drive. */
  spans?: Array<SpanForm>;
  /** Steps that are known to be missing. */
  gaps?: Array<GapForm>;
  /** Notes in a run that Forum does not drive. */
  notes?: Array<RunNoteForm>;
  /** Whether a model made its plan. */
  planned?: boolean;
  /** Whether models or verifiers judged its results or its answer. */
  judged?: boolean;
  /**
   * The one word for its state that all surfaces show: `ok`, `failed`, `budget`, `overrun`,
   * `waiting` and others.
   */
  word?: string;
  /** The number of calls that a cap refused, for a run that Forum does not drive. */
  refused?: number;
  /**
   * What a run that Forum does not drive is shown as: its command or name, and the first message
   * to a model. Null for a run with a request.
   */
  title?: string | null;
  /** The models that gain nothing from a team: one was asked for, and a single agent works. */
  declined_team?: Array<string>;
  /**
   * Which tasks went on with a compacted conversation, because it passed the context of the
   * model; null if none did.
   */
  compacted?: string | null;
}

/** A run in a list of runs. */
export interface RunLine {
  /** The name of a run. */
  run: string;
  state: RunState;
  outcome: Outcome | null;
  stopped: StopReason | null;
  /** How many tasks, or turns of a panel, have passed. */
  passed: number;
  /** How many its plan has, or its panel has begun. */
  tasks: number;
  spent: AmountForm;
  /** A point in time (RFC 3339, UTC). */
  begun: string;
  /** Its first 200 characters. Null if it was erased, or if Forum does not drive the run. */
  request: string | null;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance: Provenance;
  /** The name of a run that Forum does not drive. */
  name: string | null;
  /** How many spans were recorded. */
  spans: number;
  /** How many gaps were recorded. */
  gaps: number;
  /** When it ended; null while it goes on. */
  ended?: string | null;
  /** The lane that its route has chosen. */
  lane?: string | null;
  /** How many of its calls have no known price, and count as free. */
  unpriced?: number;
  /**
   * Whether somebody has changed its summary, or its request, in the database. All else is then
   * told by its entries; verify the ledger.
   */
  altered?: boolean;
  /**
   * What a run that Forum does not drive is shown as: its command or name, and the first message
   * to a model. Null for a run with a request.
   */
  title?: string | null;
  /** The models that were called, the dearest first. */
  models?: Array<string>;
  /** How long it took; null while it goes on. */
  seconds?: number | null;
  /**
   * The one word for its state that all surfaces show: `ok`, `failed`, `budget`, `overrun`,
   * `waiting` and others.
   */
  word?: string;
  /** The number of calls that a cap refused, for a run that Forum does not drive. */
  refused?: number;
  /** Whether its request, name or title is longer. The run itself has it. */
  is_cut?: boolean;
}

/** A note in a run that Forum does not drive. */
export interface RunNoteForm {
  strand: string;
  step: string;
  actor: string;
  /** A point in time (RFC 3339, UTC). */
  at: string;
  entry: number | null;
}

/** How a run ended, for those who look for runs: an outcome, or what a council left of it. */
export type RunOutcome = "blocked" | "cancelled" | "denied" | "failed" | "indeterminate" | "ok" | "split" | "timeout";

/** Where the answer comes from. */
export interface RunReference {
  run: string;
  href: string;
  /** POST there for the evidence, which `forum verify` reads. */
  verify: string;
  /** How a panel has come to it, and who dissents. */
  deliberation?: CouncilForm | SymposiumForm | null;
}

/** A run begins, under these limits. */
export interface RunStart {
  type: "start";
  run: string;
  name: string;
  told?: ReportProvenance;
  framework?: string;
  trace?: string;
  continues?: string;
  usd?: number;
  tokens?: number;
  calls?: number;
}

/** How far a run has come. */
export type RunState = "accepted" | "ended" | "interrupted" | "running" | "stopped" | "waiting";

/** Some runs, the newest first. */
export interface RunsPage {
  runs: Array<RunLine>;
  /**
   * The cursor of the next page; null at the end. A page with filters may hold fewer runs than
   * asked for, or none, and still have a next one.
   */
  next: string | null;
  /**
   * How many runs are missing here although not all of their texts were searched: they are too
   * large, or in an archive that cannot be reached.
   */
  unsearched?: number;
}

/** Which runs, and which part of the list. */
export interface RunsPageAsk {
  /** Only runs in this state. */
  state?: RunState | null;
  /** Only runs that ended so; one whose council decided nothing is not ok. */
  outcome?: RunOutcome | null;
  /** Only runs that began at or after this time. */
  since?: string | null;
  /** Only runs that began before this time. */
  until?: string | null;
  /** Only runs whose request, name, prompts, replies or tool calls contain this text. */
  text?: string;
  /** Only runs whose route or plan names this lane. */
  lane?: string;
  /** Only runs that Forum knows of in this way. */
  provenance?: Provenance | null;
  /** The cursor that the previous page gave. */
  cursor?: string;
  limit?: number;
}

/** What somebody may do at the doors of a ledger. */
export type Scope = "admin" | "approve" | "audit" | "metrics" | "read" | "report" | "submit";

/** How good an ended run, a task or an answer is. */
export interface ScoreAsk {
  name: string;
  /** The score, which is stored in thousandths. */
  value: number;
  subject?: ScoreSubject;
  /** The name of the task, if the subject is `task`. */
  task?: string;
  /**
   * What kind of judge gave it. `person` needs a credential of a person: the operator's token,
   * or that of an identity provider. By default it is what the credential says: `person`, or
   * `program` for an API key.
   */
  by?: Scorer | null;
  comment?: string;
}

/** A score: its subject, its author and its value. */
export interface ScoreForm {
  /** The id of an entry: its leaf hash in the tree, in hexadecimal digits. */
  entry: string;
  /** The name of a run. */
  run: string;
  subject: ScoreSubject;
  /** Null if no task is scored. */
  task: string | null;
  name: string;
  /** From 0 to 1, in thousandths. */
  value: number;
  by: Scorer;
  /** The agent that judged. */
  judge: string | null;
  independence: Independence | null;
  actor: string;
  /** A point in time (RFC 3339, UTC). */
  at: string;
  /** Null if there is none, or it was erased. */
  comment: string | null;
  /** Whether it counts: its actor has given no newer score of this subject. */
  latest: boolean;
}

/** What a score is about. */
export type ScoreSubject = "answer" | "run" | "task";

/** What kind of judge gave a score, by its own statement; the actor names who wrote it. */
export type Scorer = "judge" | "person" | "program";

/** The scores of a run, its tasks and its answer, the oldest first. */
export interface ScoresForm {
  /** The name of a run. */
  run: string;
  scores: Array<ScoreForm>;
}

/** A seat, and its way through the session. */
export interface SeatForm {
  seat: number;
  /** The default agent has no name. */
  agent: string;
  model: string | null;
  votes: Array<VoteForm>;
  /** The answer by which it was counted. */
  weighed: string | null;
}

/** The limits of a cap; null means no limit. */
export interface SharedCapForm {
  usd: string | null;
  tokens: number | null;
  runs: number | null;
}

/** A gate, with the content that waits at it and the results that the decision is about. */
export interface ShownGateForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
  /** The digest of what a gate shows; a decision names it. */
  digest: string;
  decided: Answer | null;
  by: DecidedBy | null;
  /** The decision that takes effect if nobody decides in time. */
  default: Answer;
  /** A point in time (RFC 3339, UTC). */
  deadline: string;
  /**
   * How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by the
   * SDK in the program, or `reported` by a program afterwards.
   */
  provenance: Provenance;
  /**
   * Who asks: the actor that submitted the run, or the key or process that reports it. A gate of
   * a run that is not `driven` shows what its program says.
   */
  asked_by: string;
  /** The entry that commits to what is shown; null until it has an index. */
  index: number | null;
  /**
   * The salt of the body `shown` of that entry, in hexadecimal digits: the digest is the salted
   * commitment to the body. Null if it was erased.
   */
  salt: string | null;
  shown: string;
  /** Null if it was erased. */
  request: string | null;
  /** Of the tasks that it waits for; of an effect, also what its agent said. */
  results: Array<GateResult>;
  /** What an approval leads to. */
  if_approved: string;
  /** What a rejection leads to. */
  if_rejected: string;
  spent: AmountForm;
  cap: CapForm;
  /** The reason of the decision, if one was given. */
  reason: string | null;
}

/** A witness that has cosigned the newest checkpoint, and when it says it did. */
export interface Sighting {
  witness: string;
  time: number;
  same_machine: boolean;
  independent?: boolean;
}

/** The client that reports a run. */
export interface SourceForm {
  by: string;
  framework: string | null;
  trace: string | null;
  /** The run that this one continues. */
  continues: string | null;
}

/** A step of a program, as far as it was recorded. */
export interface SpanForm {
  span: string;
  /** The span that this one is part of. */
  within: string | null;
  op: Operation;
  name: string;
  agent: string | null;
  model: string | null;
  provider: string | null;
  /** Null while no end is recorded. */
  outcome: Outcome | null;
  code: string | null;
  /** The beginning of the error, if one is kept. */
  error: string | null;
  input_tokens: number;
  output_tokens: number;
  /** The cost; while it is open, what is reserved. */
  spent: AmountForm;
  /** A point in time (RFC 3339, UTC). */
  began: string;
  /** How long it took, in seconds. */
  seconds: number;
  /** Whether it was recorded before it began. */
  begun_first: boolean;
  /** The number of bytes of its bodies that were not kept. */
  cut: number;
  entry: number | null;
}

/** Who said something. */
export type Speaker = "assistant" | "developer" | "system" | "tool" | "user";

/** The amounts used: dollars, tokens, runs. */
export interface SpendForm {
  /** An exact amount in US dollars, as a string. */
  usd: string;
  tokens: number;
  runs: number;
}

/** The cost of one part of a deliberation. */
export interface SpentForm {
  /** An exact amount in US dollars, as a string. */
  usd: string;
  tokens: number;
}

/** A message of a session. */
export interface SpokenForm {
  id: string;
  round: number;
  turn: number;
  type: MessageType;
  speaker: string;
  text: string;
  spent: SpentForm;
}

/** Whether a claim holds. */
export type State = "fails" | "holds" | "not checked";

/** What a run has come to, as the exit status of a program tells it. */
export type Status = 0 | 1 | 5 | 6 | 8 | 9 | 130;

/** A step is about to be made; it is made only after this is recorded. */
export interface StepBegin {
  type: "begin";
  run: string;
  span: string;
  op: Operation;
  name: string;
  within?: string;
  agent?: string;
  model?: string;
  provider?: string;
  usd?: number;
  tokens?: number;
  calls?: number;
  prices?: string;
  cut?: number;
  input?: unknown;
  input_after?: EarlierInput | null;
}

/** The content of an entry without its time, position and hashes. */
export interface StepForm {
  kind: string;
  facts: Record<string, unknown>;
  /** The digests of bodies by their names. */
  bodies: Record<string, string>;
}

/** A step was made.  Bodies are JSON values. */
export interface StepReport {
  type: "step";
  run: string;
  span: string;
  op: Operation;
  name: string;
  outcome: Outcome;
  within?: string;
  began?: number;
  micros?: number;
  agent?: string;
  model?: string;
  provider?: string;
  input_tokens?: number;
  output_tokens?: number;
  usd?: number;
  prices?: string;
  code?: string;
  cut?: number;
  begun?: boolean;
  input?: unknown;
  output?: unknown;
  error?: unknown;
  attributes?: unknown;
  input_after?: EarlierInput | null;
}

/** Why something was stopped. */
export type StopReason = "budget" | "cancelled" | "deadline" | "depth" | "error" | "lost" | "ping-pong" | "rejected" | "repeat" | "role" | "turns";

/** What a stream tells besides. */
export interface StreamOptions {
  include_usage?: boolean | null;
}

/** Which gate of a run. */
export interface Subject {
  subject: string;
}

/** A session of the open protocol: who said what, and how it ended. */
export interface SymposiumForm {
  protocol: "symposium";
  /** Its id; null if that was erased. */
  session: string | null;
  panel: Array<string>;
  rounds: number;
  messages: Array<SpokenForm>;
  /** Null while it goes on. */
  outcome: OutcomeKind | null;
  /** Why there is no synthesis. */
  reason: Reason | null;
  /** What the panel wants to know. */
  pending: string | null;
  /** What it left open. */
  unresolved: Array<string>;
  /** SHA-256 of the canonical transcript. */
  digest: string | null;
  spent: SpentForm | null;
}

/** A request that was taken on: it will be carried out, whatever happens now. */
export interface Taken {
  run: string;
  href: string;
  events: string;
  /**
   * Whether a worker was seen that carries out runs of this ledger. If not, the run waits until
   * one is started: `forum worker`. A worker of many ledgers is seen only while it has work in
   * this one.
   */
  worker: boolean;
}

/** One task of a plan. */
export interface TaskAsk {
  id: string;
  instruction: string;
  /** The criteria that the result must meet. */
  done_when?: string;
  /** The tasks whose output it receives. */
  needs?: Array<string>;
  /** The tasks that must end before it, and whose output it does not receive. */
  after?: Array<string>;
  lane?: string;
  agent?: string;
  tasks?: Array<TaskAsk>;
  budget?: BudgetAsk | null;
  /** The panel that deliberates on the task. */
  panel?: PanelAsk | null;
  /**
   * Options, one of which a configured panel chooses: that which `agent` names, or else the
   * first.
   */
  decide?: Array<string>;
}

/** A task of a run: its progress, its agent and its cost. */
export interface TaskForm {
  id: string;
  lane: string | null;
  state: TaskState;
  /** The reason of its state, if there is one to give. */
  reason: string;
  /** The agent that works on it; empty for the default agent. */
  agent: string;
  model: string | null;
  attempts: number;
  verdicts: Array<VerdictForm>;
  /** Calls whose replies were lost with their workers. */
  lost: number;
  spent: AmountForm;
  /** How long it took, in seconds. */
  seconds: number;
  /** The tasks whose output it receives. */
  needs: Array<string>;
  /** The tasks that must end before it, and whose output it does not receive. */
  after: Array<string>;
  /** The run within this one that does it. */
  run: string | null;
  /** The index of its last entry. */
  entry: number | null;
  /** How far the panel agreed that worked on it; null without a panel. */
  accord?: Accord | null;
}

/** How far a task has come. */
export type TaskState = "failed" | "passed" | "pending" | "running" | "skipped" | "stopped" | "waiting";

/** What only Forum knows: what the run may use, what has to be approved, who deliberates. */
export interface Terms {
  budget?: BudgetAsk;
  gates?: GateAsk | null;
  /** The options of the panel that answers as the model `panel`. */
  panel?: PanelAsk | null;
  /** Whether a stream may give words before the answer is recorded. */
  live?: boolean;
}

/** How strong a model the work of a lane usually needs. */
export type Tier = "capable" | "cheap" | "frontier";

/** Which part of a transcript. */
export interface TranscriptAsk {
  /** How many steps are left out; as `next` says. */
  after?: number;
  limit?: number;
}

/** Steps of a run as messages, in the order of their beginnings. */
export interface TranscriptPage {
  /** The name of a run. */
  run: string;
  exchanges: Array<ExchangeForm>;
  /** How many steps the run has. */
  total: number;
  /** `after` of the next page; null at the end of the run. */
  next: number | null;
}

/** A play that did not happen. */
export interface UnplayedCase {
  case: number;
  configuration: string;
  repeat: number;
  reason: string;
}

/** The point in the run up to which it is shown. */
export interface UntilAsk {
  /** The index of the last entry that is taken into account. */
  until?: number | null;
}

/** The calls that one provider got. */
export interface UpstreamForm {
  /** The provider, or the upstream of a route. */
  name: string;
  calls: number;
  /** How many of them did not end well. */
  failed: number;
  /** An exact amount in US dollars, as a string. */
  usd: string;
  /** Half of the calls that ended well took at most so long. */
  p50_ms: number;
  /** Of the calls that ended well, 95 % took at most so long. */
  p95_ms: number;
}

/** The time whose calls are counted. */
export interface UpstreamsAsk {
  /** Only runs that began at or after this time. */
  since?: string | null;
  /** Only runs that began before this time. */
  until?: string | null;
}

/** How providers have answered model calls of runs that Forum does not drive. */
export interface UpstreamsForm {
  upstreams: Array<UpstreamForm>;
  refused: Array<RefusalsForm>;
  /**
   * If not null, older calls of the time that was asked for are not counted: a request reads the
   * newest ten thousand entries of the log at most.
   */
  since: string | null;
}

/** Tokens. */
export interface UsageForm {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

/** Whether a key can be used. */
export type Validity = "expired" | "revoked" | "valid";

/** The verdict on one attempt, who gave it, and what followed. */
export interface VerdictForm {
  attempt: number;
  outcome: Outcome;
  check: Check;
  next: Next;
  reason: string | null;
  judge: string | null;
  independence: Independence | null;
  claims: number;
  unverified: number;
  /** What the judge wrote, or the panel found; null if no model judged. */
  opinion: OpinionForm | null;
  /** How far the panel agreed that judged it; null if none did. */
  accord?: Accord | null;
  /** The run in which that panel deliberated. */
  run?: string | null;
}

/** The ballot of a seat in one round. */
export interface VoteForm {
  /** 0 is the first round, in which no seat saw another ballot. */
  round: number;
  answer: string;
  /** In per cent. */
  confidence: number;
}

/** A gate that a run waits for: its own, or one of a run within it. */
export interface WaitForm {
  /** The name of a run. */
  run: string;
  /** What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
  subject: string;
}

/** Why a call did not end well. */
export type Why = "" | "cancelled" | "cut" | "deadline" | "error" | "lost" | "oversize" | "throttled";

/** An entry, its causes, and theirs. */
export interface WhyForm {
  causes: Array<CauseForm>;
}

/**
 * Who has seen what is verified, as far as the reader knows.      The claim Independent holds
 * in the first two cases, as it always did; only the first may be     called independent.
 */
export type WitnessState = "independent" | "none" | "self-witnessed";

/** Of the tokens that were written. */
export interface WrittenDetails {
  reasoning_tokens?: number;
}

/** Every operation: its parameters, its body and its reply. */
export interface Operations {
  /** Have a request carried out */
  "POST /api/v1/runs": {
    path: undefined;
    query: undefined;
    body: AskForm;
    reply: Taken;
  };
  /** List runs, the newest first */
  "GET /api/v1/runs": {
    path: undefined;
    query: { state?: RunState | null; outcome?: RunOutcome | null; since?: string | null; until?: string | null; text?: string; lane?: string; provenance?: Provenance | null; cursor?: string; limit?: number };
    body: undefined;
    reply: RunsPage;
  };
  /** Look at a run, as it stands or as it stood */
  "GET /api/v1/runs/{run}": {
    path: { run: string };
    query: { until?: number | null };
    body: undefined;
    reply: RunForm;
  };
  /** Read the calls of a run as messages */
  "GET /api/v1/runs/{run}/transcript": {
    path: { run: string };
    query: { after?: number; limit?: number };
    body: undefined;
    reply: TranscriptPage;
  };
  /** Compare two runs, step by step */
  "GET /api/v1/runs/{run}/diff/{other}": {
    path: { run: string; other: string };
    query: undefined;
    body: undefined;
    reply: DiffForm;
  };
  /** Who the client is: name, scopes, ledger */
  "GET /api/v1/me": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: MeForm;
  };
  /** Follow a run: an event for each entry, with its index as the event's id */
  "GET /api/v1/runs/{run}/events": {
    path: { run: string };
    query: { after?: number | null };
    body: undefined;
    reply: string;
  };
  /** Ask a run to end */
  "POST /api/v1/runs/{run}/cancel": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: Taken;
  };
  /** Have an interrupted run carried out again */
  "POST /api/v1/runs/{run}/resume": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: Taken;
  };
  /** Begin a run from the middle of another one */
  "POST /api/v1/runs/{run}/fork": {
    path: { run: string };
    query: undefined;
    body: ForkAsk;
    reply: Taken;
  };
  /** List everything that waits for a person */
  "GET /api/v1/gates": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: GatesForm;
  };
  /** Show what waits for approval */
  "GET /api/v1/runs/{run}/gate": {
    path: { run: string };
    query: { subject: string };
    body: undefined;
    reply: ShownGateForm;
  };
  /** Approve or reject what waits */
  "POST /api/v1/runs/{run}/gate": {
    path: { run: string };
    query: undefined;
    body: DecisionAsk;
    reply: DecisionForm;
  };
  /** Replace what waits for approval */
  "PUT /api/v1/runs/{run}/gate": {
    path: { run: string };
    query: undefined;
    body: EditAsk;
    reply: GateEditForm;
  };
  /** Score a run, a task or an answer */
  "POST /api/v1/runs/{run}/scores": {
    path: { run: string };
    query: undefined;
    body: ScoreAsk;
    reply: ScoreForm;
  };
  /** List the scores of a run */
  "GET /api/v1/runs/{run}/scores": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: ScoresForm;
  };
  /** List what was used of caps over many runs, and what is left */
  "GET /api/v1/budgets": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: BudgetsForm;
  };
  /** Set, raise or remove a cap over many runs, at once for all processes */
  "POST /api/v1/budgets": {
    path: undefined;
    query: undefined;
    body: CapAsk;
    reply: BudgetsForm;
  };
  /** Stop all spending at once, or end that */
  "POST /api/v1/budgets/freeze": {
    path: undefined;
    query: undefined;
    body: FreezeAsk;
    reply: BudgetsForm;
  };
  /** Add up what runs have cost, by day, agent, model or lane */
  "GET /api/v1/costs": {
    path: undefined;
    query: { by?: CostAxis; since?: string | null; until?: string | null; split?: CostAxis | null; cursor?: string };
    body: undefined;
    reply: CostsForm;
  };
  /** Count calls, failures, latency and refusals by provider */
  "GET /api/v1/upstreams": {
    path: undefined;
    query: { since?: string | null; until?: string | null };
    body: undefined;
    reply: UpstreamsForm;
  };
  /** List the keys of the ledger */
  "GET /api/v1/keys": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: KeysForm;
  };
  /** Give somebody a key; its secret is shown this once */
  "POST /api/v1/keys": {
    path: undefined;
    query: undefined;
    body: KeyAsk;
    reply: NewKeyForm;
  };
  /** Let a key open nothing from now on */
  "DELETE /api/v1/keys/{key}": {
    path: { key: string };
    query: undefined;
    body: undefined;
    reply: KeyForm;
  };
  /** List entries, of the log or of one run, in the order of the log */
  "GET /api/v1/entries": {
    path: undefined;
    query: { run?: string; after?: number; limit?: number };
    body: undefined;
    reply: EntriesPage;
  };
  /** Follow the whole log: an event for each entry, with its index as the event's id */
  "GET /api/v1/events": {
    path: undefined;
    query: { after?: number | null };
    body: undefined;
    reply: string;
  };
  /** Look at an entry, by its index, its id, or the first digits of that */
  "GET /api/v1/entries/{entry}": {
    path: { entry: string };
    query: undefined;
    body: undefined;
    reply: EntryForm;
  };
  /** Get a body as it is, with `Forum-Salt` to check it; `approve` opens only what gates show */
  "GET /api/v1/entries/{entry}/bodies/{name}": {
    path: { entry: string; name: string };
    query: undefined;
    body: undefined;
    reply: Uint8Array;
  };
  /** Get the proof that an entry is in the log (with `Accept: text/plain` a C2SP tlog-proof) */
  "GET /api/v1/entries/{entry}/proof": {
    path: { entry: string };
    query: undefined;
    body: undefined;
    reply: ProofForm;
  };
  /** Get the names of all runs, in the order of their openings, with a proof */
  "GET /api/v1/directory": {
    path: undefined;
    query: { first?: number; limit?: number };
    body: undefined;
    reply: DirectoryForm;
  };
  /** Look at what led to an entry */
  "GET /api/v1/entries/{entry}/causes": {
    path: { entry: string };
    query: { limit?: number };
    body: undefined;
    reply: WhyForm;
  };
  /** Look at what the log has committed to */
  "GET /api/v1/checkpoint": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: CheckpointForm;
  };
  /** Check the whole ledger, with the keys and memories of the server */
  "POST /api/v1/verification": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: ReportForm;
  };
  /** Replay a run from its record alone, and compare the two */
  "POST /api/v1/runs/{run}/replay": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: ReplayForm;
  };
  /** Take the evidence of a run along; that is recorded */
  "POST /api/v1/runs/{run}/bundle": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: Uint8Array;
  };
  /** Ask where a request belongs, and why; recorded only with `record` */
  "POST /api/v1/route": {
    path: undefined;
    query: undefined;
    body: RouteAsk;
    reply: RouteForm;
  };
  /** Ask what would be done; recorded only with `record` */
  "POST /api/v1/plan": {
    path: undefined;
    query: undefined;
    body: PreviewAsk;
    reply: PlanForm;
  };
  /** List who would be asked, for what, and at what price */
  "GET /api/v1/models": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: ModelsForm;
  };
  /** List the specialists to whom work is given */
  "GET /api/v1/roster": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: RosterForm;
  };
  /** The newest signed checkpoint (C2SP tlog-checkpoint) */
  "GET /tlog/checkpoint": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** An entry bundle, such as `x001/067` or `000.p/8` (C2SP tlog-tiles) */
  "GET /tlog/tile/entries/{path}": {
    path: { path: string };
    query: undefined;
    body: undefined;
    reply: Uint8Array;
  };
  /** A tile, such as `0/x001/067` or `1/000.p/8` (C2SP tlog-tiles) */
  "GET /tlog/tile/{level}/{path}": {
    path: { level: string; path: string };
    query: undefined;
    body: undefined;
    reply: Uint8Array;
  };
  /** List evaluations, the newest first */
  "GET /api/v1/evaluations": {
    path: undefined;
    query: { cursor?: string; limit?: number };
    body: undefined;
    reply: EvaluationsPage;
  };
  /** Read the report of an evaluation, computed anew where it is not too large */
  "GET /api/v1/evaluations/{run}": {
    path: { run: string };
    query: undefined;
    body: undefined;
    reply: EvaluationForm;
  };
  /** Show what is worth a look since the last review, or in one run */
  "GET /api/v1/reviews": {
    path: undefined;
    query: { run?: string; limit?: number };
    body: undefined;
    reply: ReviewForm;
  };
  /** Record that you have looked */
  "POST /api/v1/reviews": {
    path: undefined;
    query: undefined;
    body: ReviewAsk;
    reply: ReviewForm;
  };
  /** List the incidents */
  "GET /api/v1/incidents": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: IncidentsForm;
  };
  /** Record an incident */
  "POST /api/v1/incidents": {
    path: undefined;
    query: undefined;
    body: IncidentAsk;
    reply: IncidentForm;
  };
  /** Record that an incident is dealt with */
  "POST /api/v1/incidents/{incident}/close": {
    path: { incident: string };
    query: undefined;
    body: IncidentCloseAsk;
    reply: IncidentForm;
  };
  /** Take the evidence of a period or an incident along; that is recorded */
  "POST /api/v1/evidence": {
    path: undefined;
    query: undefined;
    body: EvidenceAsk;
    reply: Uint8Array;
  };
  /** Report runs and steps of agents that Forum does not drive */
  "POST /api/v1/reports": {
    path: undefined;
    query: undefined;
    body: ReportBatch;
    reply: ReportResult;
  };
  /** List what chat clients can choose as a model */
  "GET /v1/models": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: ChoicesForm;
  };
  /** Tell what a model is */
  "GET /v1/models/{model}": {
    path: { model: string };
    query: undefined;
    body: undefined;
    reply: ChoiceForm;
  };
  /** Answer a conversation, as OpenAI's chat completions do */
  "POST /v1/chat/completions": {
    path: undefined;
    query: undefined;
    body: ChatAsk;
    reply: Completion;
  };
  /** Answer a request, as OpenAI's responses do */
  "POST /v1/responses": {
    path: undefined;
    query: undefined;
    body: ResponsesAsk;
    reply: ResponseForm;
  };
  /** Whether the process lives */
  "GET /livez": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** Whether to send requests here: whether it can write */
  "GET /readyz": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** Whether to send requests here that only read */
  "GET /readyz/read": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** Whether entries get an index and a signature */
  "GET /readyz/sign": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** What this process counts */
  "GET /metrics": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: string;
  };
  /** This API as OpenAPI 3.1 */
  "GET /openapi.json": {
    path: undefined;
    query: undefined;
    body: undefined;
    reply: unknown;
  };
}

/** How each reply is read, and whether a request can be repeated. */
export const OPERATIONS: {
  [name in keyof Operations]: { reply: "json" | "text" | "bytes"; keyed: boolean };
} = {
  "POST /api/v1/runs": { reply: "json", keyed: true },
  "GET /api/v1/runs": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}/transcript": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}/diff/{other}": { reply: "json", keyed: false },
  "GET /api/v1/me": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}/events": { reply: "text", keyed: false },
  "POST /api/v1/runs/{run}/cancel": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/resume": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/fork": { reply: "json", keyed: true },
  "GET /api/v1/gates": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}/gate": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/gate": { reply: "json", keyed: false },
  "PUT /api/v1/runs/{run}/gate": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/scores": { reply: "json", keyed: false },
  "GET /api/v1/runs/{run}/scores": { reply: "json", keyed: false },
  "GET /api/v1/budgets": { reply: "json", keyed: false },
  "POST /api/v1/budgets": { reply: "json", keyed: false },
  "POST /api/v1/budgets/freeze": { reply: "json", keyed: false },
  "GET /api/v1/costs": { reply: "json", keyed: false },
  "GET /api/v1/upstreams": { reply: "json", keyed: false },
  "GET /api/v1/keys": { reply: "json", keyed: false },
  "POST /api/v1/keys": { reply: "json", keyed: false },
  "DELETE /api/v1/keys/{key}": { reply: "json", keyed: false },
  "GET /api/v1/entries": { reply: "json", keyed: false },
  "GET /api/v1/events": { reply: "text", keyed: false },
  "GET /api/v1/entries/{entry}": { reply: "json", keyed: false },
  "GET /api/v1/entries/{entry}/bodies/{name}": { reply: "bytes", keyed: false },
  "GET /api/v1/entries/{entry}/proof": { reply: "json", keyed: false },
  "GET /api/v1/directory": { reply: "json", keyed: false },
  "GET /api/v1/entries/{entry}/causes": { reply: "json", keyed: false },
  "GET /api/v1/checkpoint": { reply: "json", keyed: false },
  "POST /api/v1/verification": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/replay": { reply: "json", keyed: false },
  "POST /api/v1/runs/{run}/bundle": { reply: "bytes", keyed: false },
  "POST /api/v1/route": { reply: "json", keyed: false },
  "POST /api/v1/plan": { reply: "json", keyed: false },
  "GET /api/v1/models": { reply: "json", keyed: false },
  "GET /api/v1/roster": { reply: "json", keyed: false },
  "GET /tlog/checkpoint": { reply: "text", keyed: false },
  "GET /tlog/tile/entries/{path}": { reply: "bytes", keyed: false },
  "GET /tlog/tile/{level}/{path}": { reply: "bytes", keyed: false },
  "GET /api/v1/evaluations": { reply: "json", keyed: false },
  "GET /api/v1/evaluations/{run}": { reply: "json", keyed: false },
  "GET /api/v1/reviews": { reply: "json", keyed: false },
  "POST /api/v1/reviews": { reply: "json", keyed: false },
  "GET /api/v1/incidents": { reply: "json", keyed: false },
  "POST /api/v1/incidents": { reply: "json", keyed: false },
  "POST /api/v1/incidents/{incident}/close": { reply: "json", keyed: false },
  "POST /api/v1/evidence": { reply: "bytes", keyed: false },
  "POST /api/v1/reports": { reply: "json", keyed: false },
  "GET /v1/models": { reply: "json", keyed: false },
  "GET /v1/models/{model}": { reply: "json", keyed: false },
  "POST /v1/chat/completions": { reply: "json", keyed: true },
  "POST /v1/responses": { reply: "json", keyed: true },
  "GET /livez": { reply: "text", keyed: false },
  "GET /readyz": { reply: "text", keyed: false },
  "GET /readyz/read": { reply: "text", keyed: false },
  "GET /readyz/sign": { reply: "text", keyed: false },
  "GET /metrics": { reply: "text", keyed: false },
  "GET /openapi.json": { reply: "json", keyed: false },
};

/** Parameters that may have several segments of a path. */
export const DEEP_PARAMETERS: ReadonlySet<string> = new Set(["model", "path"]);
