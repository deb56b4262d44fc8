import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A virtual environment with one package of an exact version (`name==1.2.3`). Installs once per machine, renamed into place
 * when it is complete.
 * @returns its folder of programs
 */
export function pythonEnvironment(pinned: string): string {
  const home = join(tmpdir(), `postern-${pinned}`)
  if (!existsSync(home)) install(pinned, home)
  return join(home, 'bin')
}

function install(pinned: string, home: string): void {
  const making = mkdtempSync(join(tmpdir(), 'postern-venv-'))
  execFileSync('python3', ['-m', 'venv', making], { stdio: ['ignore', 'ignore', 'inherit'] })
  execFileSync(join(making, 'bin/python3'), ['-m', 'pip', 'install', '--quiet', pinned], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  try {
    renameSync(making, home)
  } catch {
    // Another run installed it first.
    rmSync(making, { recursive: true, force: true })
  }
}
