import { ensure, has, OPTIONAL_TOOLS, REQUIRED_TOOLS } from './tools.ts'

/** Once before all suites: what they need is here, or its lack is said by name. */
export default function setup(): () => void {
  for (const tool of REQUIRED_TOOLS) ensure(tool)
  const missing = OPTIONAL_TOOLS.filter(tool => !has(tool))
  const names = missing
    .map(tool => `${tool.program} (${tool.otherwise ?? `Debian: ${tool.debianPackage}`})`)
    .join(', ')
  if (missing.length > 0 && process.env['CI'] === 'true') {
    throw new Error(`With CI=true nothing may be skipped, but these are missing: ${names}`)
  }
  return () => {
    if (missing.length > 0) process.stdout.write(`\nSkipped for want of: ${names}\n`)
  }
}
