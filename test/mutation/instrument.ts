import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { ROOT } from './plan.ts'

/** Git, the linter and the tests leave this folder out. */
export const WORK = `${ROOT}coverage/mutation/`
const HERE = `${ROOT}test/mutation/`
const INSTRUMENTER = `${WORK}node_modules/@stryker-mutator/instrumenter/`

interface Position {
  /** From 0. */
  readonly line: number
  readonly column: number
}

/** What Stryker's instrumenter returns of each mutant. */
interface PlantedMutant {
  readonly id: string
  readonly fileName: string
  readonly mutatorName: string
  readonly replacement: string
  readonly location: { readonly start: Position; readonly end: Position }
}

export interface Mutant {
  readonly id: string
  readonly path: string
  /** From 1. */
  readonly line: number
  /** Text of that line. */
  readonly text: string
  /** What it replaces, and with what. */
  readonly fault: string
}

interface Instrumented {
  readonly files: readonly { readonly name: string; readonly content: string }[]
  readonly mutants: readonly PlantedMutant[]
}

interface Instrumenter {
  instrument(
    files: readonly { readonly name: string; readonly mutate: true; readonly content: string }[],
    options: object,
  ): Promise<Instrumented>
}

/**
 * Plants every fault that Stryker knows into the sources of a part. Each is inactive until a test run activates it.
 * @param name of the run: two may run at once
 */
export async function plantFaults(
  part: string,
  name: string,
): Promise<{ mutants: Mutant[]; sources: Record<string, string> }> {
  installInstrumenter()
  const module = (await import(`${INSTRUMENTER}dist/src/index.js`)) as {
    Instrumenter: new (logger: object) => Instrumenter
  }
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, isDebugEnabled: () => false }
  const paths = globSync(`src/${part}/**/*.ts`, { cwd: ROOT }).toSorted()
  const texts = new Map(paths.map(path => [path, readFileSync(`${ROOT}${path}`, 'utf8')]))
  const { files, mutants } = await new module.Instrumenter(logger).instrument(
    [...texts].map(([name, content]) => ({ name, mutate: true, content })),
    { plugins: null, ignorers: [], excludedMutations: [] },
  )
  const sources: Record<string, string> = {}
  for (const { name: file, content } of files) {
    const path = `${WORK}planted/${name}/${file}`
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
    sources[file] = path
  }
  return { mutants: mutants.map(planted => describe(planted, texts.get(planted.fileName) ?? '')), sources }
}

/** Babel comes with it, which only this command needs: its first run installs it apart from the other packages. */
function installInstrumenter(): void {
  if (existsSync(INSTRUMENTER)) return
  mkdirSync(WORK, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(`${HERE}${file}`, `${WORK}${file}`)
  const { status } = spawnSync('npm', ['ci', '--no-progress'], { cwd: WORK, stdio: 'inherit' })
  if (status !== 0) throw new Error(`npm ci failed in ${WORK}: mutation testing needs Stryker's instrumenter`)
}

function describe({ id, fileName, replacement, location }: PlantedMutant, content: string): Mutant {
  const { start, end } = location
  const lines = content.split('\n')
  const inside = lines.slice(start.line, end.line + 1)
  inside.push(inside.pop()?.slice(0, end.column) ?? '')
  inside[0] = inside[0]?.slice(start.column) ?? ''
  return {
    id,
    path: fileName,
    line: start.line + 1,
    text: (lines[start.line] ?? '').trim(),
    fault: `${short(inside.join(' '))} => ${short(replacement)}`,
  }
}

/** On one line, and of a length to read. */
function short(code: string): string {
  const line = code.replaceAll(/\s+/g, ' ')
  return line.length <= 70 ? line : `${line.slice(0, 50)}…${line.slice(-19)}`
}
