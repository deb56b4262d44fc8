import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Packages of exact versions that cannot be dependencies of this project. Installs once per machine, renamed into place when
 * complete.
 * @returns their `node_modules`
 */
export function npmTools(pinned: readonly string[]): string {
  const home = join(tmpdir(), `postern-npm-${hash('sha256', pinned.join(' ')).slice(0, 16)}`)
  if (!existsSync(home)) install(pinned, home)
  return join(home, 'node_modules')
}

function install(pinned: readonly string[], home: string): void {
  const making = mkdtempSync(join(tmpdir(), 'postern-npm-'))
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--silent']
  execFileSync('npm', ['install', '--prefix', making, ...options, ...pinned], {
    cwd: making,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  try {
    renameSync(making, home)
  } catch {
    // Another run installed it first.
    rmSync(making, { recursive: true, force: true })
  }
}
