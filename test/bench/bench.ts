import { parseArgs } from 'node:util'
import { measureAgainst } from './against.ts'
import { measureBodies } from './bodies.ts'
import { measureBudget } from './budget.ts'
import { measureCheck } from './check.ts'
import { type Contestant, checkAnswer, startContestants } from './contestants.ts'
import { evaluateGoals, inTurns } from './goals.ts'
import { measureLimits } from './limits.ts'
import { type Pace, runRounds, type Samples } from './measure.ts'
import { otherCheckout } from './other-checkout.ts'
import { sideTable, writeResultSections } from './pages.ts'
import { whatIsHere } from './requirements.ts'
import { saveRequests } from './results.ts'
import { measureScale } from './scale.ts'
import { compareShort, writeShort } from './short.ts'
import { measureSideFigures } from './side-figures.ts'
import { measureStarts } from './starts.ts'
import { goalsTable, samplesTable } from './tables.ts'
import { BenchWorld } from './world.ts'

const { values: options } = parseArgs({
  options: {
    /** Compares a few ratios with those of a quiet machine, and fails if one is worse. */
    short: { type: 'boolean', default: false },
    /** With --short: writes these ratios, if this machine is quiet. */
    write: { type: 'boolean', default: false },
    /** Measures where the time of a request goes, instead of comparing contestants. */
    budget: { type: 'boolean', default: false },
    /** Measures the time to readiness and the idle memory of a gateway instead. */
    starts: { type: 'boolean', default: false },
    /** Measures nginx in check mode instead, beside nginx + Lua. */
    check: { type: 'boolean', default: false },
    /** Measures rate limits instead: a plan of three policies, and a limit that is used up. */
    limits: { type: 'boolean', default: false },
    /** Measures responses of 8 MB instead, beside Caddy. */
    bodies: { type: 'boolean', default: false },
    /** Measures the cost of the number of keys in use instead. */
    scale: { type: 'boolean', default: false },
    keys: { type: 'string', default: '100,10000,1000000' },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '1' },
    /** Runs only contestants whose name contains this; docs/performance.md is not written. */
    only: { type: 'string', multiple: true },
    /** A commit to compare with, or a directory with another checkout. With --only, docs/performance.md is not written. */
    against: { type: 'string' },
    /** Flags for the gateway's node, such as --node=--cpu-prof; docs/performance.md is not written. */
    node: { type: 'string', multiple: true, default: [] },
  },
})
const UNAVAILABLE = 69

const here = whatIsHere(options.bodies ? ['caddy'] : [])
for (const note of here.notes) say(note)
process.exitCode = here.canRun ? await (options.short ? runShort() : runLong()) : UNAVAILABLE

async function runShort(): Promise<number> {
  if (!options.write) return (await compareShort(say)) ? 1 : 0
  if (!(await writeShort(say))) return UNAVAILABLE
  writeResultSections()
  return 0
}

async function inWorld<Result>(use: (world: BenchWorld) => Promise<Result>): Promise<Result> {
  const world = await BenchWorld.start()
  try {
    return await use(world)
  } finally {
    await world.stop()
  }
}

function runLong(): Promise<number> {
  const pace = { rounds: Number(options.rounds), seconds: Number(options.seconds) }
  return inWorld(async world => {
    if (options.starts) say(await measureStarts(world))
    else if (options.budget) say(await measureBudget(world))
    else if (options.check) say(await measureCheck(world, pace, here.lua))
    else if (options.bodies) say(await measureBodies(world, pace, tell))
    else if (options.limits) say(await measureLimits(world, pace))
    else if (options.scale)
      say(await measureScale(world, options.keys.split(',').map(Number), otherDirectory(world)))
    else if (options.against !== undefined && options.only === undefined && options.node.length === 0)
      say(await measureAgainst(world, options.against, { pace, lua: here.lua, tell }))
    else await runAll(world, pace)
    return 0
  })
}

async function contestantsOf(world: BenchWorld): Promise<Contestant[]> {
  const all = await startContestants(world, {
    lua: here.lua,
    against: otherDirectory(world) ?? null,
    nodeFlags: options.node,
  })
  const { only } = options
  const contestants = all.filter(({ name }) => only === undefined || only.some(part => name.includes(part)))
  for (const contestant of contestants) await checkAnswer(contestant)
  return contestants
}

function otherDirectory(world: BenchWorld): string | undefined {
  return options.against === undefined ? undefined : otherCheckout(options.against, world.directory).directory
}

function tell(text: string): void {
  process.stderr.write(`\r\u001b[K${text}`)
}

async function runAll(world: BenchWorld, pace: Pace): Promise<void> {
  const contestants = await contestantsOf(world)
  const measured = await runRounds(inTurns(contestants), pace, tell)
  const samples: Samples = new Map(contestants.map(({ name }) => [name, measured.get(name) ?? []]))
  process.stderr.write('\n')
  const goals = evaluateGoals(samples)
  say(samplesTable(samples))
  say(goalsTable(goals))
  if (options.only !== undefined || options.against !== undefined || options.node.length > 0) return
  const side = await measureSideFigures(contestants, samples)
  say(sideTable(side))
  saveRequests(samples, { ...pace, side })
  writeResultSections()
  await world.stopGateways()
  say(await measureStarts(world))
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
