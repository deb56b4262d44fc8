import { type RunnerTestCase, type RunnerTestSuite, TestRunner, vi } from 'vitest'
import { mayFind, readersOf } from './choose-tests.ts'
import { isAbout, type Plan, readEvents, readPlan, record, testNameOf } from './plan.ts'

/** A faulty run of a test may take this long, or three times as long as the test takes without a fault. */
const LEAST_DEADLINE_MS = { fault: 1_000, confirm: 2_000 }
/**
 * A test that takes longer than this tries a mutant only if few such tests of its file did, and all of them have taken less than
 * the mutant's budget. A file named as the mutant's source, or one that reads all of its texts, has no such limit.
 */
const SLOW_MS = 20
const MS_A_SLOW_TRY = 100
/**
 * Of each mutant. The fewer are tried, the more each may take, except for tests of other subjects: in a sample of the console
 * hundreds of tests visit the page of one mutant, and few look at it.
 */
const LEAST_BUDGET_MS = 4_000
const MOST_BUDGET_MS = 30_000
const BUDGET_OF_ALL_MS = 600_000
/** Of a test. One that is so more often cannot run twice, and tries no further mutants. */
const MAX_DOUBTFUL = 3
/** A test may replace them, and end before it restores them. */
const { setTimeout: startTimer, clearTimeout: stopTimer } = globalThis
const ENDLESS = 'Hit count limit reached'

/** What the sources that Stryker's instrumenter writes read and count. */
interface Namespace {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number
  mutantCoverage?: { static: Record<string, number>; perTest: Record<string, Record<string, number>> }
}

/** `confirm` follows on `control`: a mutant is killed if the test fails, passes without it, and fails again. */
type Phase = 'baseline' | 'fault' | 'control' | 'confirm' | 'done'

/**
 * Runs each test once, and then again with each mutant that it executed, in the same process and with its hooks. That takes
 * milliseconds a mutant, where a process for each takes a second.
 */
export default class FaultRunner extends TestRunner {
  readonly #plan: Plan = readPlan()
  readonly #alive = new Set(Object.keys(this.#plan.mutants))
  /** Pairs of a test and a mutant that an earlier process tried. */
  readonly #tried = new Set<string>()
  readonly #doubtful = new Map<string, number>()
  /** Tests that failed in an earlier process without a mutant. */
  readonly #unstableBefore = new Set<string>()
  #hasTried = false
  readonly #namespace: Namespace
  /** For each file and mutant, the number of slow tests that tried it. */
  readonly #slowTries = new Map<string, number>()
  readonly #budgetMs: number
  /** For each mutant, the processor time that slow tests took for it: on a busy machine the others wait no less for them. */
  readonly #spentMs = new Map<string, number>()
  /** Whether a test file is to find the faults of a source file. */
  readonly #chosen = new Map<string, boolean>()
  #phase: Phase = 'baseline'
  #queue: string[] = []
  /** How often the test executes the code of each mutant. */
  #hits: Readonly<Record<string, number>> = {}
  #current = ''
  #startMs = 0
  /** Time of the test without a fault, and with its hooks. */
  #baselineMs = 0
  #baselineCpuMs = 0
  #startCpuMs = 0
  #failure = ''
  #outside = new Map<string, number>()
  /** When the load of the current file began, later by the time that its tests took to try mutants. */
  #fileStartMs = 0

  constructor(config: ConstructorParameters<typeof TestRunner>[0]) {
    super(config)
    const scope = globalThis as { __stryker__?: Namespace }
    scope.__stryker__ ??= {}
    this.#namespace = scope.__stryker__
    const shareMs = BUDGET_OF_ALL_MS / this.#alive.size
    this.#budgetMs = Math.min(MOST_BUDGET_MS, Math.max(LEAST_BUDGET_MS, shareMs))
    for (const event of readEvents(this.#plan.events)) {
      if (event.kind === 'try') this.#tried.add(`${event.test} ${event.id}`)
      if (event.kind === 'killed') this.#alive.delete(event.id)
      if (event.kind === 'unstable') this.#unstableBefore.add(event.test)
      if (event.kind !== 'doubtful') continue
      this.#doubtful.set(event.test, (this.#doubtful.get(event.test) ?? 0) + 1)
      // It gets its second turn, in which its process ends after it.
      this.#alive.delete(event.id)
    }
  }

  override onCollectStart(file: Parameters<TestRunner['onCollectStart']>[0]): void {
    this.#fileStartMs = performance.now()
    this.#outside = new Map(Object.entries(this.#namespace.mutantCoverage?.static ?? {}))
    super.onCollectStart(file)
    if (this.#plan.alone === null) return
    // Empty for a control, which runs without a mutant.
    this.#current = /\/(\d+)\.test\.ts$/.exec(file.name)?.[1] ?? ''
    record(this.#plan.events, { kind: 'try', test: file.name, id: this.#current })
    // The sources are loaded again, with this mutant.
    vi.resetModules()
    this.#namespace.activeMutant = this.#current
  }

  override async importFile(...[path, source]: Parameters<TestRunner['importFile']>): Promise<unknown> {
    try {
      return await super.importFile(path, source)
    } catch (error) {
      if (this.#plan.alone !== null && source === 'collect') this.#killed(path, this.#current, String(error))
      throw error
    }
  }

  override async onBeforeRunSuite(suite: RunnerTestSuite): Promise<void> {
    await super.onBeforeRunSuite(suite)
    if (this.#plan.isLoadOnly) {
      // Neither its hooks nor what follows them runs.
      suite.mode = 'skip'
      this.#endFile(suite)
      return
    }
    // The test files could not be loaded.
    if (this.#plan.alone !== null && suite.result?.state === 'fail') {
      this.#killed(suite.file.name, this.#current, suite.result.errors?.[0]?.message ?? '')
    }
  }

  override async onAfterRunSuite(suite: RunnerTestSuite): Promise<void> {
    await super.onAfterRunSuite(suite)
    if (this.#plan.alone !== null && suite.result?.state === 'fail') {
      this.#killed(suite.file.name, this.#current, suite.result.errors?.[0]?.message ?? '')
    }
    if ('filepath' in suite) this.#endFile(suite)
  }

  #endFile(suite: RunnerTestSuite): void {
    const { static: counts = {} } = this.#namespace.mutantCoverage ?? {}
    const isRun = (id: string) => this.#plan.alone === null && counts[id] !== (this.#outside.get(id) ?? 0)
    const ids = Object.keys(counts).filter(isRun)
    const ms = performance.now() - this.#fileStartMs
    record(this.#plan.events, { kind: 'outside', file: suite.name, ids, ms })
  }

  override async onBeforeRunTask(test: RunnerTestCase): Promise<void> {
    await super.onBeforeRunTask(test)
    if (this.#plan.alone !== null) {
      if (this.#current !== '' && !this.#alive.has(this.#current)) test.mode = 'skip'
      return
    }
    // Vitest repeats a failed test; `onAfterRetryTask` says how often.
    if (!test.fails) test.retry = Number.MAX_SAFE_INTEGER
    this.#phase = 'baseline'
  }

  override onBeforeTryTask(test: RunnerTestCase, options: { retry: number; repeats: number }): void {
    super.onBeforeTryTask(test, options)
    const isFaulty = this.#phase === 'fault' || this.#phase === 'confirm'
    this.#namespace.currentTestId = this.#phase === 'baseline' ? idOf(test) : 'repeated'
    if (this.#plan.alone !== null) return
    vi.useRealTimers()
    // Vitest waits for assertions that the test did not await: those of a run that timed out never settle.
    delete test.promises
    this.#startMs = performance.now()
    this.#startCpuMs = cpuMs()
    this.#namespace.activeMutant = isFaulty ? this.#current : undefined
    this.#namespace.hitCount = isFaulty ? 0 : undefined
    if (isFaulty) record(this.#plan.events, { kind: 'try', test: idOf(test), id: this.#current })
  }

  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test)
    if (this.#phase === 'baseline' || this.#plan.alone !== null) return run()
    const { promise: late, reject } = Promise.withResolvers<never>()
    const leastMs = LEAST_DEADLINE_MS[this.#phase === 'fault' ? 'fault' : 'confirm']
    const deadlineMs = Math.max(leastMs, 3 * this.#baselineMs)
    const deadline = startTimer(() => reject(new Error('Timed out with the fault')), deadlineMs)
    await Promise.race([run(), late]).finally(() => stopTimer(deadline))
  }

  override async onAfterRetryTask(
    test: RunnerTestCase,
    options: { retry: number; repeats: number },
  ): Promise<void> {
    await super.onAfterRetryTask(test, options)
    const { result } = test
    if (result === undefined || test.fails) return
    // An error that nothing handles does not count: a timer of an earlier mutant may throw it.
    const hasFailed = result.state === 'fail'
    const message = result.errors?.at(-1)?.message ?? ''
    this.#namespace.currentTestId = undefined
    if (this.#plan.alone !== null) {
      if (hasFailed) this.#killed(idOf(test), this.#current, message)
      return
    }
    this.#namespace.activeMutant = undefined
    if (this.#phase !== 'baseline') this.#fileStartMs += performance.now() - this.#startMs
    this.#phase = this.#nextPhase(test, hasFailed, message)
    // Vitest repeats what it takes as a failure.
    const isDone = this.#phase === 'done'
    result.state = isDone ? 'pass' : 'fail'
    if (isDone) delete result.errors
    else result.errors = [{ name: 'Repeat', message: 'to be run with the next fault' }]
    result.attempts?.splice(0)
  }

  #nextPhase(test: RunnerTestCase, hasFailed: boolean, message: string): Phase {
    switch (this.#phase) {
      case 'baseline': {
        if (hasFailed) return this.#unstable(test, message)
        this.#baselineMs = performance.now() - this.#startMs
        this.#baselineCpuMs = cpuMs() - this.#startCpuMs
        this.#hits = this.#namespace.mutantCoverage?.perTest[idOf(test)] ?? {}
        const ids = Object.keys(this.#hits)
        this.#queue = ids.filter(id => this.#isToTry(test, id))
        record(this.#plan.events, { kind: 'covered', test: idOf(test), ids })
        return this.#nextFault()
      }
      case 'fault':
        if (!hasFailed) return this.#nextFault()
        this.#failure = message
        return 'control'
      case 'control':
        if (!hasFailed) return 'confirm'
        record(this.#plan.events, { kind: 'doubtful', test: idOf(test), id: this.#current })
        // The tests go on in another process: this one, and those that it started, are a group of their own.
        process.kill(0, 'SIGKILL')
        return 'done'
      case 'confirm':
        if (hasFailed) this.#killed(idOf(test), this.#current, this.#failure)
        return this.#nextFault()
      default:
        return 'done'
    }
  }

  #isToTry(test: RunnerTestCase, id: string): boolean {
    if (!this.#alive.has(id) || this.#tried.has(`${idOf(test)} ${id}`)) return false
    if ((this.#doubtful.get(idOf(test)) ?? 0) >= MAX_DOUBTFUL) return false
    if (!this.#mayFind(test.file.name, this.#plan.mutants[id] ?? '')) return false
    if (this.#baselineMs <= SLOW_MS) return true
    const ofFile = `${test.file.name} ${id}`
    const slowTries = this.#slowTries.get(ofFile) ?? 0
    const spentMs = this.#spentMs.get(id) ?? 0
    const source = this.#plan.mutants[id] ?? ''
    const isOwnFile =
      test.file.name.startsWith(testNameOf(source)) || readersOf(source).includes(test.file.name)
    const isNamed = this.#plan.part === 'console' || isAbout(test.file.name, source)
    const budgetMs = isNamed ? this.#budgetMs : LEAST_BUDGET_MS
    if (!isOwnFile && (slowTries >= budgetMs / MS_A_SLOW_TRY || spentMs > budgetMs)) return false
    this.#slowTries.set(ofFile, slowTries + 1)
    this.#spentMs.set(id, spentMs + this.#baselineCpuMs)
    return true
  }

  /** Matching patterns takes long where each of hundreds of tests runs the code of hundreds of mutants. */
  #mayFind(file: string, source: string): boolean {
    const place = `${file} ${source}`
    const known = this.#chosen.get(place) ?? mayFind(this.#plan.part, file, source)
    this.#chosen.set(place, known)
    return known
  }

  #nextFault(): Phase {
    const next = this.#queue.shift()
    if (next === undefined) return 'done'
    this.#current = next
    this.#hasTried = true
    this.#namespace.hitLimit = 100 * (this.#hits[next] ?? 0) + 100_000
    return 'fault'
  }

  #killed(test: string, id: string, message: string): void {
    if (id === '') {
      record(this.#plan.events, { kind: 'unstable', test: nameOfFile(test), message: message.slice(0, 200) })
      return
    }
    if (!this.#alive.delete(id)) return
    const how = message.includes(ENDLESS)
      ? 'endless'
      : /timed out|deadline/i.test(message)
        ? 'deadline'
        : 'failed'
    record(this.#plan.events, {
      kind: 'killed',
      test,
      id,
      how,
      message: message.slice(0, 200),
    })
  }

  #unstable(test: RunnerTestCase, message: string): Phase {
    record(this.#plan.events, { kind: 'unstable', test: idOf(test), message: message.slice(0, 200) })
    // An earlier fault may have outlived its test: this one gets a second turn in another process.
    if (this.#hasTried && !this.#unstableBefore.has(idOf(test))) process.kill(0, 'SIGKILL')
    return 'done'
  }
}

function idOf(test: RunnerTestCase): string {
  return `${test.file.name} ${test.fullTestName ?? test.name}`
}

/** Of this process. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** @param test an id that begins with the path of a test file */
function nameOfFile(test: string): string {
  return /([^/ ]+)\.test\.ts/.exec(test)?.[1] ?? test
}
