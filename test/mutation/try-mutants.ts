import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { readersOf } from './choose-tests.ts'
import { type Mutant, WORK } from './instrument.ts'
import { type Event, type Plan, ROOT, readEvents, record, testNameOf } from './plan.ts'

/** Without an event for so long, a process of tests is in an endless loop: deadlines in the runner are shorter. */
const STUCK_MS = 90_000
const LOOK_MS = 1_000

/** A mutant that is loaded with the sources is shown to so many test files, of which others than those named for it take no longer in total. */
const MAX_FILES = 4
const MAX_FILES_MS = 4_000

export interface Verdict {
  readonly status: 'killed' | 'deadline' | 'survived' | 'not covered'
  /** The test that killed it. */
  readonly test: string
}

interface Run {
  readonly part: string
  readonly name: string
  /** All mutants of the part, also those that are not tried. */
  readonly planted: readonly Mutant[]
}

interface Options {
  readonly processes: number
  readonly resume: boolean
  readonly fast: boolean
  /** Only those whose code runs while the sources are loaded, with the test files that `choose-tests.ts` names for that. */
  readonly loaded: boolean
}

/**
 * Tries mutants while tests run, and then those whose code runs before: while the sources are loaded, or in hooks.
 * @returns of those that were to be tried
 */
export async function tryMutants(
  { part, name: run, planted }: Run,
  sources: Plan['sources'],
  mutants: readonly Mutant[],
  { processes, resume, fast: isFast, loaded: isLoadOnly }: Options,
): Promise<Map<string, Verdict>> {
  const shards = Array.from({ length: processes }, (_, shard) =>
    mutants.filter((_mutant, index) => index % processes === shard),
  )
  const events = await Promise.all(
    shards.map(async (some, shard) => {
      const name = `${run}-${shard}`
      if (!resume) rmSync(eventsOf(name), { force: true })
      const plan = { part, sources, mutants: pathsOf(some), alone: null, isFast, isLoadOnly, events: '' }
      const seen = await runTests(name, plan)
      const filesOf = (mutant: Mutant) =>
        isLoadOnly ? readersOf(mutant.path) : testFilesOf(mutant, planted, seen)
      return [...seen, ...(await tryAlone({ part, name, sources }, some, filesOf, seen))]
    }),
  )
  const loaded = new Set(events.flat().flatMap(event => (event.kind === 'outside' ? event.ids : [])))
  const tried = mutants.filter(({ id }) => !isLoadOnly || loaded.has(id))
  return new Map(tried.map(({ id }) => [id, verdictOn(id, events.flat())]))
}

async function tryAlone(
  { part, name, sources }: Pick<Run, 'part' | 'name'> & Pick<Plan, 'sources'>,
  mutants: readonly Mutant[],
  chooseFiles: (mutant: Mutant) => readonly string[],
  seen: readonly Event[],
): Promise<Event[]> {
  const killed = new Set(seen.flatMap(event => (event.kind === 'killed' ? [event.id] : [])))
  const doubtful = seen.flatMap(event => (event.kind === 'doubtful' ? [event.id] : []))
  const outside = seen.flatMap(event => (event.kind === 'outside' ? event.ids : []))
  const ids = new Set([...doubtful, ...outside].filter(id => !killed.has(id)))
  const waiting = mutants.filter(({ id }) => ids.has(id))
  const chosen = waiting.map(mutant => [mutant.id, chooseFiles(mutant)] as const)
  const filesOf = new Map(chosen.filter(([, files]) => files.length > 0))
  const show = (some: ReadonlyMap<string, readonly string[]>) => {
    const alone = `${WORK}alone/${name}/`
    rmSync(alone, { recursive: true, force: true })
    mkdirSync(alone, { recursive: true })
    for (const [test, files] of some) writeFileSync(`${alone}${test}.test.ts`, files.map(suiteOf).join(''))
    const plan = {
      ...{ part, sources, mutants: pathsOf(waiting), alone, events: '' },
      ...{ isFast: false, isLoadOnly: false },
    }
    rmSync(eventsOf(`${name}-alone`), { force: true })
    return some.size === 0 ? [] : runTests(`${name}-alone`, plan)
  }
  // Files that fail without a mutant, because of the machine or because they cannot run twice, kill none.
  const controls = new Map([...filesOf.values()].map(files => [`${nameOf(files)}-control`, files]))
  const failed = (await show(controls)).flatMap(event => (event.kind === 'unstable' ? [event.test] : []))
  const sound = new Map([...filesOf].filter(([, files]) => !failed.includes(`${nameOf(files)}-control`)))
  const once = new Set((await show(sound)).flatMap(event => (event.kind === 'killed' ? [event.id] : [])))
  // Those that a busy machine killed survive now.
  return show(new Map([...sound].filter(([id]) => once.has(id))))
}

/** Imports a test file with hooks of its own. */
function suiteOf(file: string): string {
  return `describe('${file}', async () => { await import('${ROOT}${file}') })\n`
}

function nameOf(files: readonly string[]): string {
  return createHash('sha256').update(files.join()).digest('hex').slice(0, 12)
}

/** First the file named as the source and those that read all that it declares, then those that run its code: in hooks, in tests. */
function testFilesOf(mutant: Mutant, planted: readonly Mutant[], seen: readonly Event[]): string[] {
  const neighbours = new Set(planted.filter(({ path }) => path === mutant.path).map(({ id }) => id))
  const inHooks = (event: Event) =>
    event.kind === 'outside' && event.ids.includes(mutant.id) ? [event.file] : []
  const inTests = (event: Event) =>
    event.kind === 'covered' && event.ids.some(id => neighbours.has(id)) ? [fileOf(event.test)] : []
  const msOf = new Map(seen.flatMap(event => (event.kind === 'outside' ? [[event.file, event.ms]] : [])))
  const quickFirst = (files: string[]) => files.toSorted((a, b) => (msOf.get(a) ?? 0) - (msOf.get(b) ?? 0))
  const readers = readersOf(mutant.path)
  const files = [...readers, ...quickFirst(seen.flatMap(inHooks)), ...quickFirst(seen.flatMap(inTests))]
  const named = testNameOf(mutant.path)
  const isFirst = (file: string) => file.startsWith(named) || readers.includes(file)
  let leftMs = MAX_FILES_MS
  return [...new Set(files)]
    .toSorted((a, b) => Number(isFirst(b)) - Number(isFirst(a)))
    .slice(0, MAX_FILES)
    .filter((file, index) => {
      leftMs -= msOf.get(file) ?? 0
      return index === 0 || readers.includes(file) || leftMs >= 0
    })
}

function pathsOf(mutants: readonly Mutant[]): Record<string, string> {
  return Object.fromEntries(mutants.map(({ id, path }) => [id, path]))
}

/** @param test the path of a test file, which has no space, and the name of a test */
function fileOf(test: string): string {
  return test.split(' ')[0] ?? ''
}

function eventsOf(name: string): string {
  return `${WORK}${name}.events`
}

/** Goes on behind the events that an interrupted run has recorded. */
async function runTests(name: string, plan: Plan): Promise<Event[]> {
  const events = eventsOf(name)
  appendFileSync(events, '')
  while (await isCutShort(name, { ...plan, events })) {
    const { kind } = readEvents(events).at(-1) ?? {}
    if (kind !== 'doubtful' && kind !== 'unstable') killLast(events)
    for (const event of readEvents(events)) {
      if (plan.alone !== null && event.kind === 'try')
        rmSync(`${plan.alone}${event.id}.test.ts`, { force: true })
    }
  }
  return readEvents(events)
}

/** The mutant that was active when a process stopped to answer, or crashed, is killed. */
function killLast(path: string): void {
  const last = readEvents(path).findLast(event => event.kind === 'try')
  if (last?.kind !== 'try') throw new Error(`The tests end early without a mutant: see ${path}`)
  const { id, test } = last
  record(path, { kind: 'killed', id, test, how: 'endless', message: 'the process was stuck or crashed' })
}

/** Runs tests. @returns whether they had to be ended, or crashed: otherwise the end of a file is what is recorded last */
async function isCutShort(name: string, plan: Plan): Promise<boolean> {
  const path = `${WORK}${name}.plan.json`
  writeFileSync(path, JSON.stringify(plan))
  const output = openSync(`${WORK}${name}.log`, 'a')
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/mutation/vitest.config.ts']
  const child = spawn(process.execPath, vitest, {
    cwd: ROOT,
    env: { ...process.env, MUTATION_PLAN: path },
    stdio: ['ignore', output, output],
    // A group of its own, which is ended together.
    detached: true,
  })
  const { promise, resolve } = Promise.withResolvers<boolean>()
  once(child, 'close').then(() => resolve(readEvents(plan.events).at(-1)?.kind !== 'outside'))
  void watch(plan.events, child.pid ?? 0, resolve, () => child.exitCode !== null || child.signalCode !== null)
  return promise
}

async function watch(
  events: string,
  group: number,
  stuck: (isStuck: true) => void,
  hasEnded: () => boolean,
): Promise<void> {
  let seen = -1
  let sinceMs = performance.now()
  while (!hasEnded()) {
    const { length } = readEvents(events)
    if (length !== seen) sinceMs = performance.now()
    seen = length
    if (performance.now() - sinceMs > STUCK_MS) {
      stuck(true)
      process.kill(-group, 'SIGKILL')
      return
    }
    await sleep(LOOK_MS)
  }
}

function verdictOn(id: string, events: readonly Event[]): Verdict {
  const kill = events.find(event => event.kind === 'killed' && event.id === id)
  if (kill?.kind === 'killed') {
    return { status: kill.how === 'deadline' ? 'deadline' : 'killed', test: kill.test }
  }
  const isCovered = events.some(
    event => (event.kind === 'covered' || event.kind === 'outside') && event.ids.includes(id),
  )
  return { status: isCovered ? 'survived' : 'not covered', test: '' }
}
