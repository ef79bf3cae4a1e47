/** The MFA devices of a user, and those of its account that no user has enabled. */
import { useAdmin, useChange } from '../../app/queries.ts';
import { MfaDevices } from '../../ui/mfa-devices.tsx';
import { Reading } from '../../ui/states.tsx';
import { may, Part, type TabProps } from './frame.tsx';
import { w } from './words.ts';

/** For `useAllowed`. */
export const mfaOperations = [
  'ListIamMfaDevices',
  'CreateIamMfaDevice',
  'DeleteIamMfaDevice',
  'EnableIamMfaDevice',
  'DeactivateIamMfaDevice',
  'ResyncIamMfaDevice',
] as const;

interface UserMfaProps extends TabProps {
  readonly name: string;
}

export function UserMfa({ account, name, allowed }: UserMfaProps) {
  const path = { account };
  const own = useAdmin('ListIamMfaDevices', { path, query: { user: name } });
  const unassigned = useAdmin('ListIamMfaDevices', { path, query: { assignment: 'Unassigned' } });
  const then = ['ListIamMfaDevices', 'GetIamUser'] as const;
  const create = useChange('CreateIamMfaDevice', then);
  const enable = useChange('EnableIamMfaDevice', then);
  const resync = useChange('ResyncIamMfaDevice', then);
  const deactivate = useChange('DeactivateIamMfaDevice', then);
  const remove = useChange('DeleteIamMfaDevice', then);
  const of = (device: string) => ({ ...path, user: name, device });
  const mayRemove = may(allowed, 'DeleteIamMfaDevice');
  const deleteDevice = (device: string) => remove.mutateAsync({ path: { ...path, device } });
  return (
    <Part title={w.mfa}>
      <Reading query={own} rows={2}>
        {({ rows }) => (
          <MfaDevices
            devices={rows}
            unassigned={unassigned.data?.rows ?? []}
            suggested={`mfa-${name}`}
            onCreate={
              may(allowed, 'CreateIamMfaDevice')
                ? (device) => create.mutateAsync({ path, body: { name: device } })
                : undefined
            }
            onEnable={
              may(allowed, 'EnableIamMfaDevice')
                ? (device, body) => enable.mutateAsync({ path: of(device), body })
                : undefined
            }
            onResync={
              may(allowed, 'ResyncIamMfaDevice')
                ? (device, body) => resync.mutateAsync({ path: of(device), body })
                : undefined
            }
            onDeactivate={
              may(allowed, 'DeactivateIamMfaDevice')
                ? async (device) => {
                    await deactivate.mutateAsync({ path: of(device) });
                    if (mayRemove) await deleteDevice(device);
                  }
                : undefined
            }
            onRemove={mayRemove ? deleteDevice : undefined}
          />
        )}
      </Reading>
    </Part>
  );
}
