import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * Runs before `npm test`. npm leaves out an optional package whose `engines` do not fit the Node that npm itself runs
 * on; with a Node before 20.19 that is the native part of the test runner. The Node that runs this file fits.
 */
try {
  await import('rolldown')
} catch {
  const npm = process.env['npm_execpath']
  if (npm === undefined) throw new Error('Run this through npm: npm test')
  const missing = nativePart()
  process.stdout.write(`Installing ${missing}, which npm left out because its own Node is too old\n`)
  // An npm as old as its Node does not detect this C library, and would reject the package as one for another platform.
  const { status } = spawnSync(
    process.execPath,
    [npm, 'install', '--no-save', '--no-audit', '--force', missing],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  process.exitCode = status ?? 1
}

/** @returns the package for this platform, in the version that matches the rest */
function nativePart(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../../node_modules/rolldown/package.json', import.meta.url), 'utf8'),
  )
  // The manifest of the test runner, whose version the lock file pins.
  const { optionalDependencies } = manifest as { optionalDependencies: Readonly<Record<string, string>> }
  const { platform, arch } = process
  const candidates = [`${platform}-${arch}`, `${platform}-${arch}-gnu`, `${platform}-${arch}-msvc`]
  const name = candidates
    .map(suffix => `@rolldown/binding-${suffix}`)
    .find(candidate => optionalDependencies[candidate] !== undefined)
  if (name === undefined) throw new Error(`The test runner has no native part for ${platform} on ${arch}`)
  return `${name}@${optionalDependencies[name]}`
}
