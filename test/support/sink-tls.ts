/**
 * Files of key pairs for sinks with TLS that ask their clients for a certificate. One authority, which only the tests
 * trust, signed both.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { two } from './server-tls.ts';

const authority = `-----BEGIN CERTIFICATE-----
MIIBqDCCAU2gAwIBAgIUNNKRD1GxwB3wGWZoEnjtBLmMOwowCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVc2x1aWNlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEyNTAxNDY1
NVoYDzIxMjYxMTAxMDE0NjU1WjAgMR4wHAYDVQQDDBVzbHVpY2UgdGVzdCBhdXRo
b3JpdHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARYgPYkXtaQc3s/+1M/EGtw
MqD0pvFwIBTvMf7k71a47wyrcwLGWrD7tzIIIiik4ndUPJZXdrjQ73mtIFlMGSVu
o2MwYTAdBgNVHQ4EFgQUH9HRnhxN2REj6Y+SQxsWqrJNtoIwHwYDVR0jBBgwFoAU
H9HRnhxN2REj6Y+SQxsWqrJNtoIwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8E
BAMCAQYwCgYIKoZIzj0EAwIDSQAwRgIhAOcOTWhNRi0UbAzyt+I3iNj8fw8Uccxq
fmJQQTzKq73GAiEA7S7rNdKuPSe8QAWPKH7qdPjRsgrDv6Ibd4dw3yYzAjY=
-----END CERTIFICATE-----
`;
/** For 127.0.0.1 and localhost. */
const server = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBzTCCAXSgAwIBAgIUE5ASt/AxHocucWZoTyWZePhVme8wCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVc2x1aWNlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEyNTAxNDY1
NloYDzIxMjYxMTAxMDE0NjU2WjAdMRswGQYDVQQDDBJzbHVpY2UgdGVzdCBzZXJ2
ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQKRucWuXGSkiVZKWSjNpogWvqT
Y15fWuQOs0EszfD7He+gus0av5+3iYS7FEYAVXyPjk4nStgNOF9x2U2hPKjgo4GM
MIGJMAkGA1UdEwQCMAAwCwYDVR0PBAQDAgeAMBoGA1UdEQQTMBGHBH8AAAGCCWxv
Y2FsaG9zdDATBgNVHSUEDDAKBggrBgEFBQcDATAdBgNVHQ4EFgQUHFBzJMg84piw
ao28/dnmppEe6dowHwYDVR0jBBgwFoAUH9HRnhxN2REj6Y+SQxsWqrJNtoIwCgYI
KoZIzj0EAwIDRwAwRAIgC1hNo9BtBNI/5x1EjytYD7ZUsdSgePL7gQu6OKdNhAcC
IDbZD6c+QYI0PqKdUpg7e/ADPCSg+S/3iM7u+KY/wMiM
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtyG5444mSMj7trk4
wJgeHl0qmtfUyqw3pQ7XwXSVxfKhRANCAAQKRucWuXGSkiVZKWSjNpogWvqTY15f
WuQOs0EszfD7He+gus0av5+3iYS7FEYAVXyPjk4nStgNOF9x2U2hPKjg
-----END PRIVATE KEY-----
`,
};
const client = {
  cert: `-----BEGIN CERTIFICATE-----
MIIByjCCAXGgAwIBAgIUE5ASt/AxHocucWZoTyWZePhVmfAwCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVc2x1aWNlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEyNTAxNDY1
NloYDzIxMjYxMTAxMDE0NjU2WjAdMRswGQYDVQQDDBJzbHVpY2UgdGVzdCBjbGll
bnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR/frPeDLWRPV/LcteNntCD7F4C
RapYvEjU2h2/1NYATiAd3KzmJ+rNKvsobIQUMm+fPkJNZQSKpuYQmK/RavnSo4GJ
MIGGMAkGA1UdEwQCMAAwCwYDVR0PBAQDAgeAMBcGA1UdEQQQMA6CDGdhdGV3YXku
dGVzdDATBgNVHSUEDDAKBggrBgEFBQcDAjAdBgNVHQ4EFgQUSN0Aq6BCK2Rv0syI
wuOndWGQbcwwHwYDVR0jBBgwFoAUH9HRnhxN2REj6Y+SQxsWqrJNtoIwCgYIKoZI
zj0EAwIDRwAwRAIgSEO7hLssElCUFuz93i/Os2XrN/xRUloTFjI+smj/qH8CIDJ2
gFF+Psnc+5eUO4TfSpd8akZNYMbYPrHz9120tEn2
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgn54AsqFipTkiQVX2
wy8UHE3WsZPoclvIvEGe5elO4G+hRANCAAR/frPeDLWRPV/LcteNntCD7F4CRapY
vEjU2h2/1NYATiAd3KzmJ+rNKvsobIQUMm+fPkJNZQSKpuYQmK/RavnS
-----END PRIVATE KEY-----
`,
};

/** For a server in the test's process. */
export const mutualTls = { ...server, ca: authority, requestCert: true, rejectUnauthorized: true } as const;

export interface SinkTls extends Disposable {
  /** With `server.crt`, `server.key` and `clients.crt`, as `engines/sinks/<name>/start.sh` takes it. */
  readonly directory: string;
  /** The fields of a target that trusts the server, and has a certificate that the server trusts. */
  readonly mutual: { readonly caFile: string; readonly certFile: string; readonly keyFile: string };
  /** The certificate of an authority that has signed nothing here. */
  readonly otherCa: string;
}

export function writeSinkTls(): SinkTls {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-sink-tls-'));
  const write = (name: string, text: string): string => {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  };
  write('server.crt', server.cert);
  write('server.key', server.key);
  return {
    directory,
    mutual: {
      caFile: write('clients.crt', authority),
      certFile: write('client.crt', client.cert),
      keyFile: write('client.key', client.key),
    },
    otherCa: write('other.crt', two.cert),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}
