import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take half a minute and more, the longest first. A file that begins last and lasts long leaves the other workers
 * idle, and what vitest remembers of earlier runs is missing in a fresh checkout.
 */
export const LONGEST = [
  'kubernetes/kubernetes.full',
  'revocation/revocation.full',
  'console/key-repository.full',
  'regions/regions.full',
  'console/poolers.full',
  'browser/every-page.full',
  'outage/stores.full',
  'console/database-copies.full',
  'image/image.full',
  'observability/live/dashboards.full',
  'console/search/query-plans.full',
  'cli/doctor.full',
  'console/export-memory.full',
  'console/admin-schema.full',
  'check/proxies.full',
  'docs/commands.full',
  'byo/key-service.full',
  'redis/sentinel.full',
  'console/database-unavailable.full',
  'console/postgres-failover.full',
  'process/rolling-restart.full',
  'blackbox/offers',
  'blackbox/client-connections',
  'revocation/confirmed',
  'console/announcing',
] as const

/** Keeps the order of vitest, with these files before the others of their project. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex(name => moduleId.endsWith(`/test/${name}.test.ts`))
      return place < 0 ? LONGEST.length : place
    }
    const sorted = await super.sort(files)
    const projects = [...new Set(sorted.map(({ project }) => project))]
    return projects.flatMap(project =>
      sorted.filter(file => file.project === project).sort((one, other) => placeOf(one) - placeOf(other)),
    )
  }
}
