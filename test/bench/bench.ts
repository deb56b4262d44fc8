import { parseArgs } from 'node:util'
import { checkAnswer, startContestants } from './contestants.ts'
import { judgeGoals } from './goals.ts'
import { runRounds } from './measure.ts'
import { whatIsHere } from './requirements.ts'
import { goalsTable, samplesTable } from './tables.ts'
import { BenchWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    /** Only contestants whose name holds this. */
    only: { type: 'string', multiple: true },
    /** Another checkout, measured beside this one. */
    against: { type: 'string' },
    /** Flags for the gateway's node, such as --cpu-prof --cpu-prof-dir=. */
    node: { type: 'string', multiple: true, default: [] },
  },
})
const say = (text: string) => process.stdout.write(`${text}\n`)

const here = whatIsHere()
for (const note of here.notes) say(note)
if (!here.canRun) process.exit(69)
const world = await BenchWorld.start()
try {
  const all = await startContestants(world, {
    lua: here.lua,
    against: values.against ?? null,
    cold: !values.short,
    nodeFlags: values.node,
  })
  const wanted = values.only
  const contestants =
    wanted === undefined ? all : all.filter(({ name }) => wanted.some(part => name.includes(part)))
  for (const contestant of contestants) await checkAnswer(contestant)
  const pace = {
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
    warmUpSeconds: 3,
    connections: 64,
  }
  const samples = await runRounds(contestants, pace, text => process.stderr.write(`\r\u001b[K${text}`))
  process.stderr.write('\n')
  say(samplesTable(samples))
  say(goalsTable(judgeGoals(samples)))
} finally {
  await world.stop()
}
