// Mutation testing with Stryker: plants faults in a part of the sources, and lists those that no test finds.
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { sampleRanges } from './sample.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HERE = fileURLToPath(new URL('./', import.meta.url))
/** Git, the linter and the tests leave this folder out. */
const WORK = `${ROOT}coverage/mutation/`
const CONFIG = `${WORK}stryker.json`
const PARTS = ['domain', 'keys', 'gateway', 'upstream'] as const
const USAGE = 64

const { values: options } = parseArgs({
  options: {
    /** One or several of the parts; all by default. */
    part: { type: 'string', multiple: true, default: [...PARTS] },
    /** Mutates about this many lines of each part instead of all. */
    lines: { type: 'string' },
    /** Chooses the lines. */
    seed: { type: 'string', default: '1' },
    /** Processes at once. */
    concurrency: { type: 'string', default: '2' },
  },
})

const unknown = options.part.filter(part => !PARTS.some(name => name === part))
if (unknown.length > 0) {
  process.stderr.write(`There is no part ${unknown.join(', ')}: choose of ${PARTS.join(', ')}\n`)
  process.exitCode = USAGE
} else {
  installStryker()
  const statuses = options.part.map(part => run(part))
  process.exitCode = Math.max(...statuses)
}

/** Stryker brings 177 packages, which only this command needs: its first run installs them apart from the others. */
function installStryker(): void {
  if (existsSync(`${WORK}node_modules/@stryker-mutator/core`)) return
  mkdirSync(WORK, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(`${HERE}${file}`, `${WORK}${file}`)
  // Stryker must use the vitest of the project, not one of its own.
  const args = ['ci', '--no-progress', '--legacy-peer-deps']
  const { status } = spawnSync('npm', args, { cwd: WORK, stdio: 'inherit' })
  if (status !== 0) throw new Error(`npm ci failed in ${WORK}: mutation testing needs Stryker`)
}

/** @returns the exit status of Stryker: not 0 if fewer mutants are found than the threshold of its settings */
function run(part: string): number {
  const files = globSync(`src/${part}/**/*.ts`, { cwd: ROOT }).toSorted()
  const chosen =
    options.lines === undefined
      ? files
      : sampleRanges(
          files.map(path => ({ path, lines: readFileSync(`${ROOT}${path}`, 'utf8').split('\n').length })),
          Number(options.lines),
          Number(options.seed),
        )
  process.stdout.write(
    `\n${part}: ${chosen.length} ${options.lines === undefined ? 'files' : 'blocks of lines'}\n`,
  )
  const report = `${WORK}${part}`
  const settings = {
    ...(JSON.parse(readFileSync(`${HERE}stryker.json`, 'utf8')) as object),
    mutate: chosen,
    concurrency: Number(options.concurrency),
    htmlReporter: { fileName: `${report}.html` },
    jsonReporter: { fileName: `${report}.json` },
  }
  writeFileSync(CONFIG, JSON.stringify(settings))
  const env = { ...process.env, MUTATED_PART: part }
  const stryker = `${WORK}node_modules/.bin/stryker`
  return spawnSync(stryker, ['run', CONFIG], { cwd: ROOT, env, stdio: 'inherit' }).status ?? 1
}
