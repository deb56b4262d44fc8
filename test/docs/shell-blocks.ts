import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PROGRAM } from '../support/postern-process.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** A block of commands in a page. */
export interface ShellBlock {
  readonly text: string
  /** The requirement stated on the line above it, such as `a cluster`; null if a test can run it here. */
  readonly needs: string | null
  /** The JSON block that follows it and shows the response. */
  readonly answer: string | null
}

/**
 * The blocks of a page, from ` ```sh ` to ` ``` `, those within a list included. `*Needs a cluster.*` on a line of its own
 * above a block marks it.
 */
export function shellBlocks(page: string): ShellBlock[] {
  const markdown = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
  const pattern =
    /(?:^ *\*Needs (a cluster|a registry|a database server)\.\*\n\n)?^( *)```sh\n([\s\S]*?)^ *```\n(?:\n(?:[^\n#`]+\n\n)?```json\n([\s\S]*?)^```\n)?/gm
  return [...markdown.matchAll(pattern)].map(([, needs = null, indent = '', text = '', answer = null]) => ({
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    needs,
    answer,
  }))
}

/**
 * Replaces npm: the checkout that runs the tests has its packages, so `npm ci` does nothing; `npm test` would run this test again.
 * It is a program rather than a shell function, so that `$!` is the process that receives signals.
 */
const NPM = `#!/bin/sh
case "$1" in ci | test) exit ;; esac
PATH="\${PATH#*:}"
exec npm "$@"
`

export interface ShellRun {
  /** Standard output of each block. */
  readonly outputs: readonly string[]
  readonly code: number | null
  readonly stderr: string
}

const SEPARATOR = '\u001e'

/** Runs blocks in one shell in the root of the checkout, as a reader would who pastes them in turn. */
export async function runBlocks(
  blocks: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ShellRun> {
  const script = `set -euo pipefail\n${blocks.join(`\nprintf '${SEPARATOR}'\n`)}`
  const shell = startShell(script, env)
  let stdout = ''
  let stderr = ''
  shell.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  shell.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const closed = once(shell, 'close')
  const [code] = (await once(shell, 'exit')) as [number | null]
  // After a failed block, its background processes still hold the pipes.
  if (code !== 0) endGroup(shell.pid)
  await closed
  return { outputs: stdout.split(SEPARATOR), code, stderr }
}

/**
 * A shell in its own process group, so that a test can end every process in it.
 * @param script null: it reads its commands from standard input
 */
export function startShell(script: string | null, env: Readonly<Record<string, string>>) {
  const programs = temporaryDirectory()
  writeFileSync(join(programs, 'npm'), NPM, { mode: 0o755 })
  const shell = spawn('bash', script === null ? ['-s'] : ['-c', script], {
    cwd: ROOT,
    detached: true,
    env: { PATH: `${programs}:${process.env['PATH'] ?? ''}`, HOME: process.env['HOME'], ...env },
  })
  if (script !== null) shell.stdin.end()
  return shell
}

/**
 * The folder of `postern` for the running test. In the full suite it starts what is built, in a third less processor time; the
 * quickstart itself puts that of the checkout on the path, which runs the sources.
 */
export function programsFolder(): string {
  if (process.env['TEST_FORM'] !== 'built') return join(ROOT, 'src/bin')
  const folder = temporaryDirectory()
  const start = [process.execPath, ...PROGRAM].map(word => `'${word}'`).join(' ')
  writeFileSync(join(folder, 'postern'), `#!/bin/sh\nexec ${start} "$@"\n`, { mode: 0o755 })
  return folder
}

/** Ends a shell of `startShell` and every process that it started. */
export function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM')
  } catch {
    // Every process in the group has already ended.
  }
}

/** Commands with the documented ports replaced by free ones. */
export function withPorts(text: string, ports: ReadonlyMap<string, number>): string {
  return text.replaceAll(/\b\d{4}\b/g, digits => String(ports.get(digits) ?? digits))
}

/** JSON responses as data, without error texts, which may change. */
export function answersIn(output: string): unknown[] {
  return output
    .split(/(?<=\})\s*(?=\{)|\n/)
    .filter(line => line.startsWith('{'))
    .map(line => {
      const { error: _, ...answer } = JSON.parse(line) as Record<string, unknown>
      return answer
    })
}
