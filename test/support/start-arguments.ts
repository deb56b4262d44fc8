import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

/** Arguments that `npm start` passes to node, read from package.json, so that tests and benchmarks run what users run. */
export function startArguments(checkout: string): string[] {
  const manifest: { scripts: { start: string } } = JSON.parse(
    readFileSync(join(checkout, 'package.json'), 'utf8'),
  )
  const [exec, node, ...words] = manifest.scripts.start.split(' ')
  if (exec !== 'exec' || node !== 'node')
    throw new Error('The start script in package.json does not begin with: exec node')
  return words
}

/** The V8 options among them. The image and the other servers of the benchmark use the same. */
export const V8_FLAGS: readonly string[] = startArguments(CHECKOUT).filter(
  word => word.startsWith('--') && word !== '--require',
)

export const SEMI_SPACE_MIB = Number(
  V8_FLAGS.find(flag => flag.startsWith('--max-semi-space-size='))?.split('=')[1],
)
