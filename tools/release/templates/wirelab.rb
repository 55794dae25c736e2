class Wirelab < Formula
  desc "{{.summary}}"
  homepage "{{.homepage}}"
  version "{{.version}}"
  license "{{.licence}}"

  on_macos do
    on_arm do
      url "{{.archives}}_darwin_arm64.tar.gz"
      sha256 "{{sum "darwin_arm64.tar.gz"}}"
    end
    on_intel do
      url "{{.archives}}_darwin_amd64.tar.gz"
      sha256 "{{sum "darwin_amd64.tar.gz"}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.archives}}_linux_arm64.tar.gz"
      sha256 "{{sum "linux_arm64.tar.gz"}}"
    end
    on_intel do
      url "{{.archives}}_linux_amd64.tar.gz"
      sha256 "{{sum "linux_amd64.tar.gz"}}"
    end
  end

  def install
    bin.install "wirelab"
    man1.install Dir["man/*.1"]
    bash_completion.install "completion/wirelab.bash" => "wirelab"
    zsh_completion.install "completion/_wirelab"
    fish_completion.install "completion/wirelab.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/wirelab version")
  end
end
