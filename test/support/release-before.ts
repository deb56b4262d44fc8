import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** 0.1.0 has no tag. Later releases have one, such as v0.2.0. */
export const FIRST_RELEASE = '524f6f1d376858bbbd5b378bd3c23dfc5a509262'

/** The commit of the newest release before this one; null where the checkout lacks its history. */
export function findReleaseBefore(): string | null {
  const tags = git(['tag', '--list', 'v*', '--sort=-version:refname', '--no-contains', 'HEAD']) ?? ''
  const release = tags.split('\n')[0] || FIRST_RELEASE
  return git(['rev-parse', '--verify', '--quiet', `${release}^{commit}`])
}

/**
 * Writes the program of a commit to an empty directory, with the packages of its own lock file.
 * @returns its launcher, for `PosternProcess`
 */
export function unpackProgram(commit: string, directory: string): readonly string[] {
  const files = ['src', 'config', 'package.json', 'package-lock.json']
  const archive = execFileSync('git', ['archive', '--format=tar', commit, ...files], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
  })
  execFileSync('tar', ['-x', '-C', directory], { input: archive })
  const packages = [
    'ci',
    '--omit=dev',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-progress',
    '--loglevel=error',
  ]
  execFileSync('npm', packages, { cwd: directory, stdio: 'pipe', timeout: 120_000 })
  return [process.execPath, join(directory, 'src', 'main.ts')]
}

function git(args: readonly string[]): string | null {
  const { status, stdout } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' })
  return status === 0 ? stdout.trim() : null
}
