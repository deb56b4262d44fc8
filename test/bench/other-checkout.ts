import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { commit } from './results.ts'
import { CHECKOUT } from './world.ts'

export interface OtherCheckout {
  readonly directory: string
  readonly commit: string
}

/**
 * Another version of the project, ready to start.
 * @param named a commit, which is written out with its packages, or a directory that has both
 * @param parent directory to write it to
 */
export function otherCheckout(named: string, parent: string): OtherCheckout {
  if (existsSync(join(named, 'package.json'))) {
    const directory = resolve(named)
    return { directory, commit: commit(directory) }
  }
  const hash = commitNamed(named)
  const directory = join(parent, hash)
  mkdirSync(directory)
  const archive = join(parent, `${hash}.tar`)
  git('archive', `--output=${archive}`, hash)
  execFileSync('tar', ['-xf', archive, '-C', directory])
  installPackages(directory)
  return { directory, commit: hash }
}

function commitNamed(named: string): string {
  try {
    return git('rev-parse', '--verify', '--quiet', '--short=8', `${named}^{commit}`)
  } catch {
    throw new Error(`${named} is neither a commit of this repository nor a directory with a checkout`)
  }
}

/** Those of this checkout where both versions lock the same. */
function installPackages(directory: string): void {
  const [own, others] = [CHECKOUT, directory].map(root =>
    readFileSync(join(root, 'package-lock.json'), 'utf8'),
  )
  if (own === others) symlinkSync(join(CHECKOUT, 'node_modules'), join(directory, 'node_modules'))
  else
    execFileSync('npm', ['ci', '--omit=dev', '--no-audit', '--no-fund'], { cwd: directory, stdio: 'inherit' })
}

function git(...words: string[]): string {
  return execFileSync('git', words, { cwd: CHECKOUT, encoding: 'utf8' }).trim()
}
