import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { temporaryDirectory } from '../support/temporary-directory.ts'

interface Step {
  readonly name: string
  readonly id?: string
  readonly if?: string
  readonly env?: Readonly<Record<string, string | number>>
  readonly run: string
}

interface Job {
  readonly env: Readonly<Record<string, string>>
  readonly steps: readonly Step[]
}

/** `secrets.ORDERS_API_KEY`, `inputs.now` and so on, as GitHub would give them to the run. */
export type Contexts = Readonly<Record<string, string>>

export interface JobRun {
  /** The steps that ran, in their order. */
  readonly steps: readonly string[]
  /** The step that failed, if one did. */
  readonly failed: string | null
  /** Standard output and standard error of all steps. */
  readonly log: string
}

/**
 * Stands in for `gh`, which needs GitHub: `gh secret set NAME` saves standard input as the file `secrets/NAME`, or fails where the file
 * `github-is-down` exists.
 */
const GH = `#!/bin/sh
cd "$STAND_IN" && test "$1 $2 $#" = "secret set 3" && test ! -e github-is-down && cat > "secrets/$3"
`

/** Runs the steps of a job as GitHub's runner does: each in bash, with its environment, outputs and condition. */
export class WorkflowJob {
  readonly #job: Job
  readonly #directory = temporaryDirectory()
  #runs = 0

  constructor(file: string, job: string) {
    const text = readFileSync(fileURLToPath(new URL(`../../${file}`, import.meta.url)), 'utf8')
    const { [job]: found } = (parse(text) as { readonly jobs: Readonly<Record<string, Job>> }).jobs
    if (found === undefined) throw new Error(`${file} has no job ${job}`)
    this.#job = found
    mkdirSync(join(this.#directory, 'secrets'))
    writeFileSync(join(this.#directory, 'gh'), GH, { mode: 0o755 })
  }

  get steps(): readonly string[] {
    return this.#job.steps.map(({ name }) => name)
  }

  /** A secret that the job has stored. */
  stored(name: string): string | null {
    const file = join(this.#directory, 'secrets', name)
    return existsSync(file) ? readFileSync(file, 'utf8') : null
  }

  failToStore(): void {
    writeFileSync(join(this.#directory, 'github-is-down'), '')
  }

  /** @param last name of the last step that runs, where the run is cut off after it */
  async run(contexts: Contexts, last?: string): Promise<JobRun> {
    this.#runs += 1
    const folder = join(this.#directory, String(this.#runs))
    mkdirSync(folder)
    const ran: string[] = []
    const known: Record<string, string> = { ...contexts }
    let log = ''
    for (const step of this.#job.steps) {
      if (step.if !== undefined && (known[step.if] ?? '') === '') continue
      const output = join(folder, `output-${step.id ?? ran.length}`)
      writeFileSync(output, '')
      const done = await bash(step.run, this.#environment(step, known, folder, output))
      log += done.log
      ran.push(step.name)
      if (!done.ok) return { steps: ran, failed: step.name, log }
      for (const line of readFileSync(output, 'utf8').split('\n').filter(Boolean)) {
        const [name = '', value = ''] = line.split('=')
        known[`steps.${step.id}.outputs.${name}`] = value
      }
      if (step.name === last) break
    }
    return { steps: ran, failed: null, log }
  }

  #environment(step: Step, known: Contexts, folder: string, output: string): Record<string, string> {
    const declared = Object.entries({ ...this.#job.env, ...step.env })
    const values = declared.map(([name, value]) => [name, withContexts(String(value), known)])
    return {
      ...Object.fromEntries(values),
      PATH: `${this.#directory}:${process.env['PATH'] ?? ''}`,
      STAND_IN: this.#directory,
      RUNNER_TEMP: folder,
      GITHUB_OUTPUT: output,
      GITHUB_RUN_ID: randomUUID(),
      GITHUB_RUN_ATTEMPT: '1',
    }
  }
}

function withContexts(text: string, known: Contexts): string {
  return text.replaceAll(/\$\{\{ ([\w.-]+) \}\}/g, (_, name: string) => known[name] ?? '')
}

/** With the flags that GitHub's runner gives to `shell: bash`. */
function bash(script: string, env: Record<string, string>): Promise<{ ok: boolean; log: string }> {
  const args = ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script]
  const { promise, resolve } = Promise.withResolvers<{ ok: boolean; log: string }>()
  execFile('bash', args, { env }, (error, stdout, stderr) =>
    resolve({ ok: error === null, log: stdout + stderr }),
  )
  return promise
}
