import { gauge, type Row, SELECTED } from './dashboard.ts'

const SAME_PROCESS = 'on (cluster, namespace, job, pod, instance)'
const DISCONNECTED = `(1 - postern_key_invalidation_connected{${SELECTED}}) * ${SAME_PROCESS} group_left (region) postern_gateway_region_info{${SELECTED}}`

/** The gauges of all consoles are of the one database that they share. */
export const regions: Row = {
  title: 'Regions (one, default, unless the console has several)',
  panels: [
    {
      title: 'Regions that the console reaches',
      description: '1 while a console is connected to the Redis of the region, 0 while none is.',
      kind: 'timeseries',
      unit: 'short',
      max: 1,
      width: 6,
      runbook: '#posternregiondown',
      queries: [{ expr: gauge('postern_region_up', 'region', '', 'max'), legend: '{{region}}' }],
    },
    {
      title: 'Unannounced changes by region',
      description:
        'Committed changes that wait for the region. While any wait, its gateways verify each key at the key service.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternregionbacklog',
      queries: [{ expr: gauge('postern_region_outbox_pending', 'region', '', 'max'), legend: '{{region}}' }],
    },
    {
      title: 'Age of the oldest unannounced change',
      description: 'How far a region is behind. 0 if no change waits.',
      kind: 'timeseries',
      unit: 's',
      width: 6,
      runbook: '#posternregionbacklog',
      queries: [
        { expr: gauge('postern_region_outbox_age_seconds', 'region', '', 'max'), legend: '{{region}}' },
      ],
    },
    {
      title: 'Gateways by region',
      description: 'Running gateways of each region, and how many of them are disconnected.',
      kind: 'timeseries',
      unit: 'short',
      width: 6,
      runbook: '#posternrevocationstreamdown',
      queries: [
        { expr: gauge('postern_gateway_region_info', 'region'), legend: '{{region}}' },
        { expr: `sum by (region) (${DISCONNECTED})`, legend: '{{region}}, disconnected' },
      ],
    },
  ],
}
