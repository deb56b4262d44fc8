import { execFile, execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheDirectory } from './cache-directory.ts'
import { unprivilegedUser } from './postgres-programs.ts'

const run = promisify(execFile)
const INITDB = [
  '--no-sync',
  '--encoding=UTF8',
  '--locale=C.UTF-8',
  '--username=postern',
  '--auth=scram-sha-256',
]

/** `data` as `initdb` leaves it, beside a file with its password. */
export interface ClusterTemplate {
  readonly directory: string
  readonly password: string
}

/** Runs `initdb` once for each version of PostgreSQL, for it takes two seconds of a processor; a copy takes a tenth. */
export async function clusterTemplate(programs: string): Promise<ClusterTemplate> {
  const version = execFileSync(join(programs, 'postgres'), ['--version'], { encoding: 'utf8' })
  const made = createHash('sha256').update(`${version}${programs}${INITDB.join()}`).digest('hex').slice(0, 16)
  const cache = cacheDirectory('postern-tests')
  const directory = join(cache, `postgres-${made}`)
  if (!existsSync(directory)) {
    mkdirSync(cache, { recursive: true })
    await makeTemplate(programs, directory)
  }
  return { directory, password: readFileSync(join(directory, 'password'), 'utf8') }
}

async function makeTemplate(programs: string, directory: string): Promise<void> {
  // Another user runs the program, who cannot enter the cache of this one.
  const own = mkdtempSync(join(tmpdir(), 'postern-initdb-'))
  const partial = `${directory}.${process.pid}`
  try {
    const passwordFile = join(own, 'password')
    writeFileSync(passwordFile, randomBytes(12).toString('hex'))
    const owner = unprivilegedUser()
    for (const path of [own, passwordFile]) if (owner !== null) chownSync(path, owner.uid, owner.gid)
    const places = [`--pgdata=${join(own, 'data')}`, `--pwfile=${passwordFile}`]
    await run(join(programs, 'initdb'), [...places, ...INITDB], { ...owner, cwd: '/' })
    await run('cp', ['-a', own, partial])
    renameSync(partial, directory)
  } catch (error) {
    // Another worker may have made it meanwhile.
    if (!existsSync(directory)) throw error
  } finally {
    for (const path of [own, partial]) rmSync(path, { recursive: true, force: true })
  }
}
